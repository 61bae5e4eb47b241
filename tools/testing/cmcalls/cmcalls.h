/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cmcalls: calls of rdma_cm and ib_cm in each state that an ID can be in, right and wrong ones, by
 * a seed. What each returns is a line in /sys/kernel/debug/cmcalls/answers, which does not depend on
 * addresses, numbers or time: so the answers of two modules can be compared.
 *
 * Both ends of a connection are on one device, and nothing is answered by itself: a state stays until
 * a call changes it. An ID whose state was changed is destroyed, and the next one is brought into the
 * state.
 *
 * Left out is what the C modules do not survive or answer by a warning, or after which they wait for
 * minutes; "not:" in the source says why.
 */
#ifndef CMCALLS_H
#define CMCALLS_H

#include <linux/completion.h>
#include <linux/err.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

/* Longer than any private data. */
#define CMC_DATA 256

struct cmc {
	/* An ID of rdma_cm whose route to the own address is known. */
	struct rdma_cm_id *donor;
	struct ib_pd *pd;
	struct ib_cq *cq;
	__be32 address;
	u8 data[CMC_DATA];
	u64 random;
	unsigned int calls, tries;
	unsigned int lost;
};

/* What a call has done. */
enum effect {
	/* Nothing that others could notice. */
	NONE,
	/* The ID is in another state, or may be. */
	CHANGED,
	/* As before, and the subject is told, or the other end. */
	TELLS,
	TELLS_OTHER,
	/* It was not made. */
	LEFT_OUT,
};

struct call {
	char name[120];
	int ret;
	enum effect effect;
};

#define NAME(call, ...) snprintf((call)->name, sizeof((call)->name), __VA_ARGS__)

/* Events of one end: how many, and the last one. */
struct cmc_events {
	wait_queue_head_t told;
	spinlock_t lock;
	unsigned int count;
	int last, status;
};

void cmc_events_init(struct cmc_events *events);
void cmc_tell(struct cmc_events *events, int event, int status);
unsigned int cmc_count(struct cmc_events *events);
/* Waits for an event after @before others. */
bool cmc_wait(struct cmc_events *events, unsigned int before);
/* The same, and whether the last one is @event. */
bool cmc_event_is(struct cmc_events *events, unsigned int before, int event);

/* Appends to the answers. */
__printf(1, 2) void cmc_say(const char *format, ...);
/*
 * Counts a call in a state, and appends its line: what it returned, and the event that it caused at
 * one of the ends, which had @mine and @others before. @other may be NULL.
 */
void cmc_answer(struct cmc *c, const char *prefix, const char *state, const struct call *call,
		struct cmc_events *subject, unsigned int mine,
		struct cmc_events *other, unsigned int others);

u32 cmc_random(struct cmc *c, u32 below);
#define cmc_pick(c, ...) ({ \
	static const int all_[] = { __VA_ARGS__ }; \
	all_[cmc_random(c, ARRAY_SIZE(all_))]; \
})
/* A length of private data: most are allowed. @limit: of the message. */
u8 cmc_length(struct cmc *c, unsigned int limit);

void cmc_run_cma(struct cmc *c);
void cmc_run_cm(struct cmc *c);

#endif
