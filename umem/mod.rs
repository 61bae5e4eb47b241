// SPDX-License-Identifier: GPL-2.0

//! User memory that devices reach: pinned, on demand, or of a dma-buf.
