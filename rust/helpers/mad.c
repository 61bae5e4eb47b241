// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_core: MADs. */
#include <linux/jiffies.h>
#include <rdma/ib_verbs.h>
#include "helpers.h"

int rdma_helper_ib_req_notify_cq(struct ib_cq *cq)
{
	return ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
}

unsigned long rdma_helper_jiffies(void)
{
	return jiffies;
}

unsigned long rdma_helper_msecs_to_jiffies(unsigned int msecs)
{
	return msecs_to_jiffies(msecs);
}
