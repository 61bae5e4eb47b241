// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) "cmcalls: " fmt

#include <linux/debugfs.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>
#include "cmcalls.h"

#define ANSWERS (4u << 20)
#define SECONDS 30

static ulong seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "seed of states, calls and arguments");

static uint calls = 24;
module_param(calls, uint, 0444);
MODULE_PARM_DESC(calls, "calls in each state");

static char *address = "10.0.1.2";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "IPv4 address of a RoCE device");

static struct debugfs_blob_wrapper answers;
static struct dentry *folder;

void cmc_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	answers.size += vscnprintf(answers.data + answers.size, ANSWERS - answers.size, format, args);
	va_end(args);
}

u32 cmc_random(struct cmc *c, u32 below)
{
	c->random = c->random * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(c->random >> 33) % below;
}

u8 cmc_length(struct cmc *c, unsigned int limit)
{
	switch (cmc_random(c, 6)) {
	case 0:
		return min(limit + 1, 255u);
	case 1:
		return min(limit, 255u);
	case 2:
		return 255;
	case 3:
		return 1;
	default:
		return 0;
	}
}

void cmc_events_init(struct cmc_events *events)
{
	init_waitqueue_head(&events->told);
	spin_lock_init(&events->lock);
	events->count = 0;
}

void cmc_tell(struct cmc_events *events, int event, int status)
{
	unsigned long flags;

	spin_lock_irqsave(&events->lock, flags);
	events->last = event;
	events->status = status;
	events->count++;
	spin_unlock_irqrestore(&events->lock, flags);
	wake_up_all(&events->told);
}

unsigned int cmc_count(struct cmc_events *events)
{
	return READ_ONCE(events->count);
}

bool cmc_wait(struct cmc_events *events, unsigned int before)
{
	return wait_event_timeout(events->told, cmc_count(events) > before, SECONDS * HZ);
}

bool cmc_event_is(struct cmc_events *events, unsigned int before, int event)
{
	return cmc_wait(events, before) && events->last == event;
}

static void say_event(const char *who, struct cmc_events *events, unsigned int before)
{
	if (cmc_wait(events, before))
		cmc_say(" %s %d (%d)", who, events->last, events->status);
	else
		cmc_say(" %s is not told", who);
}

void cmc_answer(struct cmc *c, const char *prefix, const char *state, const struct call *call,
		struct cmc_events *subject, unsigned int mine,
		struct cmc_events *other, unsigned int others)
{
	c->calls++;
	cmc_say("%s%s: %s -> %d", prefix, state, call->name, call->ret);
	if (call->effect == TELLS)
		say_event("told", subject, mine);
	else if (call->effect == TELLS_OTHER && other)
		say_event("peer told", other, others);
	cmc_say("\n");
}

static int donor_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	cmc_tell(id->context, event->event, event->status);
	return 0;
}

/* Finds the device, and the path to itself. */
static int prepare(struct cmc *c, struct cmc_events *events)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = c->address, .sin_port = htons(1) };
	struct rdma_cm_id *id = rdma_create_id(&init_net, donor_handler, events, RDMA_PS_TCP, IB_QPT_RC);
	int ret;

	if (IS_ERR(id))
		return PTR_ERR(id);
	c->donor = id;
	ret = rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000);
	if (ret || !cmc_event_is(events, 0, RDMA_CM_EVENT_ADDR_RESOLVED))
		return ret ?: -EHOSTUNREACH;
	ret = rdma_resolve_route(id, 2000);
	if (ret || !cmc_event_is(events, 1, RDMA_CM_EVENT_ROUTE_RESOLVED))
		return ret ?: -ENETUNREACH;
	c->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(c->pd)) {
		ret = PTR_ERR(c->pd);
		c->pd = NULL;
		return ret;
	}
	c->cq = ib_alloc_cq(id->device, NULL, 16, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(c->cq)) {
		ret = PTR_ERR(c->cq);
		c->cq = NULL;
		return ret;
	}
	return 0;
}

static int __init cmcalls_init(void)
{
	struct cmc_events events;
	struct cmc *c;
	int ret;

	cmc_events_init(&events);
	c = kzalloc(sizeof(*c), GFP_KERNEL);
	answers.data = vzalloc(ANSWERS);
	if (!c || !answers.data) {
		ret = -ENOMEM;
		goto out;
	}
	c->random = seed;
	c->tries = calls;
	if (!in4_pton(address, -1, (u8 *)&c->address, -1, NULL)) {
		ret = -EINVAL;
		goto out;
	}
	ret = prepare(c, &events);
	if (!ret) {
		cmc_run_cma(c);
		cmc_run_cm(c);
		cmc_say("end\n");
		pr_info("%u calls, %u states not reached\n", c->calls, c->lost);
	}
	if (c->cq)
		ib_free_cq(c->cq);
	if (c->pd)
		ib_dealloc_pd(c->pd);
	if (c->donor)
		rdma_destroy_id(c->donor);
out:
	kfree(c);
	if (ret) {
		vfree(answers.data);
		return ret;
	}
	folder = debugfs_create_dir("cmcalls", NULL);
	debugfs_create_blob("answers", 0400, folder, &answers);
	return 0;
}

static void __exit cmcalls_exit(void)
{
	debugfs_remove(folder);
	vfree(answers.data);
}

module_init(cmcalls_init);
module_exit(cmcalls_exit);
MODULE_DESCRIPTION("Test of rdma_cm and ib_cm: calls in each state, right and wrong");
MODULE_LICENSE("GPL");
