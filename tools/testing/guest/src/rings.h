/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The queues that this process shares with the kernel, as the memory map shows them, and
 * whether the two words at the head of each are what they were. Nobody ever writes these
 * again: if they change, somebody wrote into a page that was not his.
 */
#ifndef RINGS_H
#define RINGS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { RINGS = 128 };

struct ring {
	volatile const uint32_t *at;
	size_t len;
	uint32_t log2_size, mask;
};

static struct ring rings[RINGS];
static int ring_count;

/* Notes all queues that there are now. Those that the process gives back later must not
 * be looked at any more. */
static inline void rings_note(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512];

	ring_count = 0;
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "/uverbs") && sscanf(line, "%lx-%lx", &from, &to) == 2 && ring_count < RINGS) {
			struct ring *r = &rings[ring_count++];
			r->at = (const uint32_t *)from;
			r->len = to - from;
			r->log2_size = r->at[0];
			r->mask = r->at[1];
		}
	if (maps)
		fclose(maps);
}

/* How many have changed, which are told. */
static inline int rings_changed(const char *who)
{
	int bad = 0;

	for (int i = 0; i < ring_count; i++) {
		struct ring *r = &rings[i];
		uint32_t size = r->at[0], mask = r->at[1];

		if (size == r->log2_size && mask == r->mask)
			continue;
		bad++;
		fprintf(stderr, "%s: QUEUE %d OF %d CHANGED at its head: %#x %#x, which was %#x %#x\n", who, i, ring_count,
			size, mask, r->log2_size, r->mask);
	}
	return bad;
}

#endif
