# SPDX-License-Identifier: Apache-2.0
"""What happens in a log of events: graph, variants, patterns; as tables, JSON, a page."""
