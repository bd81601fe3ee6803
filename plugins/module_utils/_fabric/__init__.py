# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses for network interfaces, in a transaction that the node itself takes back unless it is confirmed."""
