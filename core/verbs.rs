// SPDX-License-Identifier: GPL-2.0

//! Objects of devices: protection domains, queues, regions and the rest.
