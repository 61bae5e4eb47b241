// SPDX-License-Identifier: GPL-2.0
/* Helpers for counters. */
#include <linux/jiffies.h>
#include "helpers.h"

unsigned int rdma_helper_jiffies_to_msecs(unsigned long time)
{
	return jiffies_to_msecs(time);
}
