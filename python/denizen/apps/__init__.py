# SPDX-License-Identifier: Apache-2.0
"""Programs that use denizen as anybody would, through its public Python API only."""
