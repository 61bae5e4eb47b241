// SPDX-License-Identifier: GPL-2.0
/*
 * hostile DEVICE GID-INDEX WAY SECONDS SEED: abuse a uverbs device. WAY is
 *   write   commands of the write() interface with wrong lengths, handles, values
 *   ioctl   the same over ioctl()
 *   mmap    mappings at offsets that were never handed out, of odd lengths
 *   rings   the queues shared with the kernel are scribbled over while in use
 * Whatever the kernel answers is right, as long as it lives and the process ends.
 * The abuse runs in children, since it may well kill the abuser.
 */
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static uint64_t state;
/* Shared by all abusers: how many calls returned. */
static unsigned long *calls;
static struct loop l;
static unsigned char reply[65536];

static uint32_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 16;
}

/* Numbers that hurt more often than random ones: small ones hit live handles. */
static uint32_t nasty(void)
{
	static const uint32_t n[] = { 0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 63, 64, 255, 4095, 4096, 65535, 65536,
		0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
	switch (rnd() % 4) {
	case 0: return rnd();
	case 1: return rnd() % 16;
	default: return n[rnd() % (sizeof(n) / sizeof(n[0]))];
	}
}

static uint64_t nasty_pointer(void)
{
	switch (rnd() % 8) {
	case 0: return 0;
	case 1: return (uint64_t)-4096 + rnd() % 8192;
	case 2: return 0xffff888000000000ull + rnd();
	case 3: return (uintptr_t)reply + sizeof(reply) - rnd() % 16;
	default: return (uintptr_t)reply;
	}
}

static void once_write(void)
{
	uint32_t msg[256];
	int words = 2 + rnd() % 40, extended = rnd() % 3 == 0;

	for (int i = 0; i < words; i++)
		msg[i] = nasty();
	msg[0] = rnd() % 64 | (extended ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0);
	/* The lengths of the header are right half of the time. */
	uint16_t in = rnd() % 2 ? (extended ? (words * 4 - 24) / 8 : words) : nasty();
	uint16_t out = rnd() % 2 ? 64 : nasty();
	msg[1] = in | (uint32_t)out << 16;
	uint64_t p = nasty_pointer();
	if (words > 4)
		memcpy(&msg[2], &p, 8);
	if (extended && words > 6) {
		msg[4] = rnd() % 2 ? 0 : nasty();
		msg[5] = 0;
	}
	if (write(l.ctx->cmd_fd, msg, words * 4) < 0)
		return;
}

static void once_ioctl(void)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr[16];
	} m;
	int n = rnd() % 12;

	memset(&m, 0, sizeof(m));
	m.hdr.object_id = rnd() % 32 | (rnd() % 8 ? 0 : 1 << 12);
	m.hdr.method_id = rnd() % 12 | (rnd() % 8 ? 0 : 1 << 12);
	m.hdr.num_attrs = rnd() % 16 ? n : nasty();
	m.hdr.driver_id = rnd() % 4 ? 14 : nasty();	/* rxe's number */
	m.hdr.length = rnd() % 16 ? sizeof(m.hdr) + n * sizeof(m.attr[0]) : nasty();
	for (int i = 0; i < n; i++) {
		m.attr[i].attr_id = rnd() % 4 ? i : rnd() % 16 | (rnd() % 2 ? 1 << 12 : 0);
		m.attr[i].len = rnd() % 2 ? (1 << rnd() % 8) : nasty();
		m.attr[i].flags = rnd() % 4 ? 1 : nasty();
		m.attr[i].data = rnd() % 2 ? nasty_pointer() : nasty();
	}
	for (size_t i = 0; i < 64; i++)
		((uint32_t *)reply)[i] = nasty();
	if (ioctl(l.ctx->cmd_fd, RDMA_VERBS_IOCTL, &m) < 0)
		return;
}

static void once_mmap(void)
{
	off_t off = (off_t)(rnd() % 3 ? rnd() % 4096 : nasty()) << (rnd() % 8 ? 12 : rnd() % 40);
	size_t len = (size_t)(1 + rnd() % 64) << (rnd() % 8 ? 12 : rnd() % 30);
	void *p = mmap(NULL, len, rnd() % 2 ? PROT_READ | PROT_WRITE : PROT_READ, rnd() % 8 ? MAP_SHARED : MAP_PRIVATE,
		       l.ctx->cmd_fd, off & ~4095l);

	if (p == MAP_FAILED)
		return;
	/* Reading may raise SIGBUS, which ends this child: allowed. */
	(void)*(volatile char *)p;
	if (rnd() % 2 && len > 4096)
		munmap((char *)p + 4096, len - 4096);
	munmap(p, len);
}

struct area {
	volatile uint32_t *at;
	size_t words;
};
enum { MOST_AREAS = 256, NEWEST = 6 };
static struct area areas[MOST_AREAS];
static volatile int nareas;

static int is_own(void *at)
{
	for (int i = 0; i < nareas; i++)
		if (areas[i].at == at)
			return 1;
	return 0;
}

static void find_rings(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f) && nareas < MOST_AREAS) {
		unsigned long from, to, offset;
		void *at;
		if (!strstr(line, "uverbs") || !strstr(line, "rw-s") ||
		    sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) != 3 || is_own((void *)from))
			continue;
		/* A mapping of our own, which stays when the library gives its own back. */
		at = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED, l.ctx->cmd_fd, offset);
		if (at != MAP_FAILED)
			areas[nareas++] = (struct area){ at, (to - from) / 4 };
	}
	if (f)
		fclose(f);
}

static void *scribbler(void *arg)
{
	uint64_t s = (uintptr_t)arg | 1;

	for (;;) {
		s = s * 6364136223846793005ull + 1442695040888963407ull;
		/* Those in use more often than those that are gone. */
		int n = nareas, from = n > NEWEST && s & 0x20000000 ? n - NEWEST : 0;
		struct area *a = &areas[from + (s >> 33) % (n - from)];
		/* Indices and the first entries are in the first words. */
		size_t w = (s >> 40) % (s & 0x10000000 ? a->words : a->words < 200 ? a->words : 200);
		uint32_t v = s >> 20;
		a->at[w] = (s & 3) == 0 ? v : (s & 3) == 1 ? v % 32 : (s & 3) == 2 ? a->at[w] + 1 : a->at[w] ^ (1u << v % 32);
		if ((v & 0xfff) == 0)
			usleep(100);
	}
	return NULL;
}

static void once_rings(void)
{
	struct ibv_wc wc[4];
	struct ibv_recv_wr r = { 0 }, *rb;
	struct ibv_send_wr w = { 0 }, *wb;
	struct ibv_sge s = { (uintptr_t)l.buf, 1 + rnd() % 9000, l.mr->lkey };

	r.sg_list = w.sg_list = &s;
	r.num_sge = w.num_sge = 1;
	w.opcode = rnd() % 5;
	w.send_flags = rnd() % 2 ? IBV_SEND_SIGNALED : 0;
	w.wr.rdma.remote_addr = (uintptr_t)l.buf + 65536;
	w.wr.rdma.rkey = l.mr->rkey;
	ibv_post_recv(l.qp[1], &r, &rb);
	ibv_post_send(l.qp[0], &w, &wb);
	ibv_req_notify_cq(l.cq[0], 0);
	ibv_poll_cq(l.cq[0], 4, wc);
	ibv_poll_cq(l.cq[1], 4, wc);
	if (rnd() % 64 == 0) {
		struct ibv_qp_attr a = { .qp_state = rnd() % 2 ? IBV_QPS_ERR : IBV_QPS_RESET };
		int n = rnd() % 2;
		ibv_modify_qp(l.qp[n], &a, IBV_QP_STATE);
		a.qp_state = IBV_QPS_RESET;
		ibv_modify_qp(l.qp[n], &a, IBV_QP_STATE);
		loop_to_rts(&l, n, l.qp[1 - n]->qp_num, 15);
	}
	if (rnd() % 128 == 0)
		ibv_resize_cq(l.cq[0], 16 + rnd() % 200);
	/* Its queues are scribbled over still when it is gone. */
	if (rnd() % 512 == 0) {
		loop_disconnect(&l);
		loop_connect(&l, 15);
		find_rings();
	}
}

static void child(const char *device, int gid, const char *way, uint64_t seed)
{
	void (*once)(void) = !strcmp(way, "write") ? once_write : !strcmp(way, "ioctl") ? once_ioctl :
			     !strcmp(way, "mmap") ? once_mmap : once_rings;

	state = seed * 2654435761u + 88172645463325252ull;
	/* On a busy machine this takes seconds. */
	alarm(60);
	loop_open(&l, device, gid);
	loop_connect(&l, 15);
	/* A queue walk of the library over scribbled indices may not end. */
	alarm(2);
	if (once == once_rings) {
		pthread_t t;
		find_rings();
		if (!nareas) {
			fprintf(stderr, "no ring is mapped\n");
			_exit(9);
		}
		pthread_create(&t, NULL, scribbler, (void *)(uintptr_t)(seed * 977));
	}
	for (int i = 0; i < 20000; i++, __atomic_add_fetch(calls, 1, __ATOMIC_RELAXED)) {
		if (once == once_write && rnd() % 16 == 0) {
			/* Files that a lucky command opened. */
			for (int fd = 20; fd < 60; fd++)
				close(fd);
		}
		once();
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "hostile DEVICE GID-INDEX write|ioctl|mmap|rings SECONDS SEED\n");
		return 1;
	}
	time_t end = time(NULL) + atoi(argv[4]);
	uint64_t seed = strtoull(argv[5], NULL, 0);
	int children = 0, killed = 0, status;

	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (calls == MAP_FAILED)
		loop_die("mmap");

	do {
		pid_t pid = fork();
		if (!pid)
			child(argv[1], atoi(argv[2]), argv[3], seed + children);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			loop_die("fork or wait");
		if (WIFEXITED(status) && WEXITSTATUS(status))
			return WEXITSTATUS(status);
		killed += WIFSIGNALED(status);
		children++;
	} while (time(NULL) < end);
	printf("hostile %s: %d abusers, %d of them ended by a signal, %lu calls\n", argv[3], children, killed, *calls);
	/* All of them may die, but not before the first call. */
	return *calls < (unsigned long)children ? 8 : 0;
}
