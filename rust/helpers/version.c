// SPDX-License-Identifier: GPL-2.0
/* The version of our modules. */
#include <linux/module.h>

#ifdef MODULE
/* Tells a file of ours from the C module of the same name: modinfo -F rust_rdma. */
MODULE_INFO(rust_rdma, RDMA_VERSION);
#endif
