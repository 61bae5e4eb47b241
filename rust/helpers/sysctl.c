// SPDX-License-Identifier: GPL-2.0
/* Helpers for numbers in /proc/sys/net of the initial namespace; see helpers.h. */
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include "helpers.h"

struct ctl_table_header *rdma_helper_sysctl_register(const char *path, const char *name,
						     int *number)
{
	struct ctl_table_header *header;
	struct ctl_table *table;

	table = kzalloc_obj(*table);
	if (!table)
		return NULL;
	table->procname = name;
	table->data = number;
	table->maxlen = sizeof(*number);
	table->mode = 0644;
	table->proc_handler = proc_dointvec_minmax;
	table->extra1 = SYSCTL_ZERO;
	table->extra2 = SYSCTL_INT_MAX;
	header = register_net_sysctl_sz(&init_net, path, table, 1);
	if (!header)
		kfree(table);
	return header;
}

void rdma_helper_sysctl_unregister(struct ctl_table_header *header)
{
	const struct ctl_table *table = header->ctl_table_arg;

	unregister_net_sysctl_table(header);
	kfree(table);
}
