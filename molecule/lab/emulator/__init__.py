"""The silicon of an emulated Spark: runs on the node, stands where driver, firmware and NICs would.

Standard library only, Python 3.9. Nothing of the product is imported and the product knows nothing of this.
"""
