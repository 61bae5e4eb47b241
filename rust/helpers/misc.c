// SPDX-License-Identifier: GPL-2.0
/* Helpers for misc devices and sysctls. */
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include <rdma/ib.h>
#include "core_priv.h"
#include "helpers.h"

bool rdma_helper_opener_changed(struct file *file)
{
	return !ib_safe_file_access(file);
}

struct ctl_table_header *rdma_helper_register_sysctl(const char *path, struct ctl_table *table)
{
	return register_net_sysctl_sz(&init_net, path, table, 1);
}

void rdma_helper_unregister_sysctl(struct ctl_table_header *header)
{
	unregister_net_sysctl_table(header);
}

void rdma_helper_nl_info_global(struct ib_client_nl_info *info, u64 abi, struct device *cdev)
{
	info->abi = abi;
	info->cdev = cdev;
}
