// SPDX-License-Identifier: GPL-2.0
/*
 * tsc: print the frequency of this machine's time stamp counter in kHz. An emulated guest
 * reads the same counter, and measures it at boot against an emulated timer, which on a busy
 * host is late: its clock then runs several times too fast, and every timeout is too short.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

struct moment {
	uint64_t ns, ticks;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Both clocks at once: of some attempts the one that was interrupted least. */
static struct moment moment(void)
{
	struct moment best = {};
	uint64_t gap = UINT64_MAX;

	for (int i = 0; i < 50; i++) {
		uint64_t before = now(), ticks = __rdtsc(), after = now();

		if (after - before < gap) {
			gap = after - before;
			best = (struct moment){ before + gap / 2, ticks };
		}
	}
	return best;
}

int main(void)
{
	struct moment a = moment(), b;

	usleep(200000);
	b = moment();
	printf("%.0f\n", (b.ticks - a.ticks) * 1e6 / (b.ns - a.ns));
	return 0;
}
