// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation and freeing of skbs. Not inlined into Rust, because this file has static data.
 *
 * An exchange of small packets frees an skb for each received packet and allocates one for each
 * packet that is sent. So each CPU keeps a few small skbs with their data for the next packets it
 * sends. The kept skbs hold no references, and neither they nor their data are shared. Their data
 * comes from kmalloc and not from a page pool of a network device, which would run short of pages.
 */
#include <linux/local_lock.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>
#include <net/dst.h>
#include "helpers.h"

/* Requests and acknowledgements of both sides. */
#define STOCK_BUFFERS 4
/* Space for headers and a short message; skbs of up to this size have data of one slab size. */
#define SMALL 512

struct stock {
	/* Taken with bottom halves disabled, which is sufficient except on PREEMPT_RT. */
	local_lock_t lock;
	unsigned int count;
	struct sk_buff *buffers[STOCK_BUFFERS];
};

static DEFINE_PER_CPU(struct stock, stock) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

/* Whether the per-CPU caches, ours and that of NAPI, may be used in this context. */
static bool may_use_stock(void)
{
	return in_softirq() && !in_hardirq();
}

/* Whether a small skb and its data are not shared with anyone. */
static bool is_plain(const struct sk_buff *skb)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);

	return !skb_shared(skb) && !skb->cloned && !skb->nohdr &&
	       skb->fclone == SKB_FCLONE_UNAVAILABLE && !skb->head_frag &&
	       !skb->pfmemalloc && !skb->pp_recycle && !skb->data_len &&
	       skb_end_offset(skb) <= SMALL && !shared->flags &&
	       !shared->nr_frags && !shared->frag_list;
}

static bool keep(struct sk_buff *skb)
{
	struct stock *here;
	bool room;

	/* The common case if more packets are received than sent. */
	if (this_cpu_read(stock.count) >= STOCK_BUFFERS || !is_plain(skb))
		return false;
	/* Order after accesses of previous users, see skb_unref(). */
	smp_rmb();
	skb_dst_drop(skb);
	skb_orphan(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);

	local_lock_nested_bh(&stock.lock);
	here = this_cpu_ptr(&stock);
	room = here->count < STOCK_BUFFERS;
	if (room)
		here->buffers[here->count++] = skb;
	local_unlock_nested_bh(&stock.lock);
	return room;
}

/* Returns a kept skb with room for @size bytes, initialised as a new one, or NULL. */
static struct sk_buff *take(unsigned int size)
{
	struct sk_buff *skb = NULL;
	struct stock *here;

	local_lock_nested_bh(&stock.lock);
	here = this_cpu_ptr(&stock);
	if (here->count && size <= skb_end_offset(here->buffers[here->count - 1]))
		skb = here->buffers[--here->count];
	local_unlock_nested_bh(&stock.lock);
	if (!skb)
		return NULL;
	/* As __alloc_skb() does; in two parts, which compilers inline. */
	BUILD_BUG_ON(offsetof(struct sk_buff, tail) <= 128);
	memset(skb, 0, 128);
	barrier();
	memset((void *)skb + 128, 0, offsetof(struct sk_buff, tail) - 128);
	memset(skb_shinfo(skb), 0, offsetof(struct skb_shared_info, dataref));
	skb->data = skb->head;
	skb_reset_tail_pointer(skb);
	skb_unset_mac_header(skb);
	skb->transport_header = (typeof(skb->transport_header))~0U;
	skb->truesize = SKB_TRUESIZE(skb_end_offset(skb));
	skb->alloc_cpu = raw_smp_processor_id();
	return skb;
}

struct sk_buff *rdma_helper_skb_new(unsigned int head, unsigned int size,
				    gfp_t flags)
{
	bool stock = may_use_stock();
	struct sk_buff *skb = stock ? take(head + size) : NULL;

	if (!skb)
		skb = __alloc_skb(head + size, flags,
				  stock ? SKB_ALLOC_NAPI : 0, NUMA_NO_NODE);
	if (skb)
		skb_reserve(skb, head);
	return skb;
}

void rdma_helper_consume_skb(struct sk_buff *skb)
{
	bool stock = may_use_stock();

	if (!stock || !keep(skb))
		napi_consume_skb(skb, stock);
}

/* Frees all kept skbs. Must not run concurrently with other functions of this file, on any CPU. */
void rdma_helper_skb_empty_stock(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct stock *there = per_cpu_ptr(&stock, cpu);

		while (there->count)
			consume_skb(there->buffers[--there->count]);
	}
}
