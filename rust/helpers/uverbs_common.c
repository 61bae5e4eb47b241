// SPDX-License-Identifier: GPL-2.0
/* Helpers that ib_uverbs and ib_uverbs_support share. */
#include <linux/module.h>
#include <linux/srcu.h>
#include "helpers.h"

int rdma_helper_srcu_read_lock(struct srcu_struct *srcu)
{
	return srcu_read_lock(srcu);
}

void rdma_helper_srcu_read_unlock(struct srcu_struct *srcu, int key)
{
	srcu_read_unlock(srcu, key);
}

void rdma_helper_module_put(struct module *module)
{
	module_put(module);
}
