// SPDX-License-Identifier: GPL-2.0
/*
 * New packet buffers, and those that are done with. Here and not in a file that is inlined
 * into Rust, since it has a state of its own.
 *
 * Who exchanges small packets with a peer takes a buffer apart for each that came, and has
 * one put together for each that goes. So every CPU keeps a few small ones whole, for what it
 * sends next. They have no reference to anything, and nobody else knows them or their data;
 * they come from the kernel's allocator and not from a network card's pages, which would be
 * missed there.
 */
#include <linux/local_lock.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>
#include <net/dst.h>
#include "helpers.h"

/* A request and an acknowledgement, on either side. */
#define STOCK_BUFFERS 4
/* What a header and a short message take; the kernel makes these buffers in one size. */
#define SMALL 512

struct stock {
	/* Taken with bottom halves off, which is enough where the kernel is no real-time one. */
	local_lock_t lock;
	unsigned int count;
	struct sk_buff *buffers[STOCK_BUFFERS];
};

static DEFINE_PER_CPU(struct stock, stock) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

/* Whether the CPU's own buffers, ours and the kernel's, are ours to use. */
static bool may_use_stock(void)
{
	return in_softirq() && !in_hardirq();
}

/* Whether nobody but the caller has a part in a small buffer or in its data. */
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

	/* Mostly so, where much comes and little goes. */
	if (this_cpu_read(stock.count) >= STOCK_BUFFERS || !is_plain(skb))
		return false;
	/* After what others did who had it: see skb_unref(). */
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

/* One of the stock with room for so many bytes, as if it were new; NULL if there is none. */
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
	/* What __alloc_skb() does; in two parts, which compilers write without a call. */
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

/* Frees all that is kept. Nobody has buffers any more, on any CPU. */
void rdma_helper_skb_empty_stock(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct stock *there = per_cpu_ptr(&stock, cpu);

		while (there->count)
			consume_skb(there->buffers[--there->count]);
	}
}
