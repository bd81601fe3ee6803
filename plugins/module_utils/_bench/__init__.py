# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's side of the proof ladder: what runs, how it is bounded, and what came of it."""
