// SPDX-License-Identifier: GPL-2.0
/* Helpers for iw_cm; see helpers.h. */
#include <linux/skbuff.h>
#include "helpers.h"

struct sk_buff *rdma_helper_skb_copy_of(const void *data, unsigned int len)
{
	struct sk_buff *skb = alloc_skb(len, GFP_KERNEL);

	if (skb)
		skb_put_data(skb, data, len);
	return skb;
}
