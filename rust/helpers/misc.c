// SPDX-License-Identifier: GPL-2.0
/* Helpers for misc devices. */
#include <rdma/ib.h>
#include "core_priv.h"
#include "helpers.h"

bool rdma_helper_opener_changed(struct file *file)
{
	return !ib_safe_file_access(file);
}

void rdma_helper_nl_info_global(struct ib_client_nl_info *info, u64 abi, struct device *cdev)
{
	info->abi = abi;
	info->cdev = cdev;
}
