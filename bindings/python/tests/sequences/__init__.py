# SPDX-License-Identifier: Apache-2.0
"""Random sequences of calls, recorded with PyTorch's GradScaler and replayed with ours."""
