// SPDX-License-Identifier: GPL-2.0

//! Where an address is: link-layer addresses for GIDs.
