// SPDX-License-Identifier: GPL-2.0
/*
 * odp DEVICE GID-INDEX: memory on demand. What is not there must come, what cannot come
 * must fail the request that wants it, and advice must do what it says. Prints "ok NAME"
 * or "not ok NAME: why" per case.
 */
#include "loop.h"
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, PAGES = 64, LEN = PAGE * PAGES };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static int bad;

static void result(const char *name, long got, long want)
{
	if (got == want)
		printf("ok %s\n", name);
	else
		printf("not ok %s: %ld, not %ld\n", name, got, want);
	fflush(stdout);
	bad |= got != want;
}

static unsigned char *map(int prot)
{
	unsigned char *p = mmap(NULL, LEN, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		loop_die("mmap");
	return p;
}

static struct ibv_mr *demand(struct loop *l, void *at, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, at, LEN, access | IBV_ACCESS_ON_DEMAND);

	if (!mr)
		loop_die("reg_mr on demand");
	return mr;
}

static int resident(unsigned char *p)
{
	unsigned char in[PAGES];
	int n = 0;

	if (mincore(p, LEN, in))
		loop_die("mincore");
	for (int i = 0; i < PAGES; i++)
		n += in[i] & 1;
	return n;
}

static int completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < 20000; i++, usleep(500))
		if (ibv_poll_cq(cq, 1, &wc))
			return wc.status;
	return -1;
}

/* One request from queue pair 0 to 1; its status. */
static int request(struct loop *l, enum ibv_wr_opcode opcode, void *at, struct ibv_mr *mr, void *to, struct ibv_mr *there,
		   uint32_t len)
{
	struct ibv_sge s = { (uintptr_t)at, len, mr->lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *b;

	w.wr.rdma.remote_addr = (uintptr_t)to;
	w.wr.rdma.rkey = there->rkey;
	if (ibv_post_send(l->qp[0], &w, &b))
		loop_die("post_send");
	return completion(l->cq[0]);
}

static void receive(struct loop *l, void *at, struct ibv_mr *mr, uint32_t len)
{
	struct ibv_sge s = { (uintptr_t)at, len, mr->lkey };
	struct ibv_recv_wr w = { .sg_list = &s, .num_sge = 1 }, *b;

	if (ibv_post_recv(l->qp[1], &w, &b))
		loop_die("post_recv");
}

static int advise(struct loop *l, int advice, int flush, void *at, uint32_t len, uint32_t lkey)
{
	struct ibv_sge s = { (uintptr_t)at, len, lkey };
	struct {
		struct ib_uverbs_ioctl_hdr h;
		struct ib_uverbs_attr a[4];
	} c;

	memset(&c, 0, sizeof(c));
	c.h.length = sizeof(c);
	c.h.object_id = UVERBS_OBJECT_MR;
	c.h.method_id = UVERBS_METHOD_ADVISE_MR;
	c.h.num_attrs = 4;
	c.h.driver_id = RDMA_DRIVER_RXE;
	for (int i = 0; i < 4; i++)
		c.a[i].flags = UVERBS_ATTR_F_MANDATORY;
	c.a[0].attr_id = UVERBS_ATTR_ADVISE_MR_PD_HANDLE;
	c.a[0].data = l->pd->handle;
	c.a[1].attr_id = UVERBS_ATTR_ADVISE_MR_ADVICE;
	c.a[1].len = 8;
	c.a[1].data = advice;
	c.a[2].attr_id = UVERBS_ATTR_ADVISE_MR_FLAGS;
	c.a[2].len = 4;
	c.a[2].data = flush ? IB_UVERBS_ADVISE_MR_FLAG_FLUSH : 0;
	c.a[3].attr_id = UVERBS_ATTR_ADVISE_MR_SGE_LIST;
	c.a[3].len = sizeof(s);
	c.a[3].data = (uintptr_t)&s;
	return ioctl(l->ctx->cmd_fd, RDMA_VERBS_IOCTL, &c) ? errno : 0;
}

static void advice(struct loop *l)
{
	enum { READ = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, WRITE = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
	       LOOK = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT };
	unsigned char *p = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = demand(l, p, ALL), *ro = demand(l, p, 0);

	result("nothing is there at first", resident(p), 0);
	result("prefetch without faulting", advise(l, LOOK, 1, p, LEN, mr->lkey), 0);
	result("... brings nothing", resident(p), 0);
	result("prefetch for writing", advise(l, WRITE, 1, p + PAGE, 2 * PAGE, mr->lkey), 0);
	result("... brings what it names", resident(p), 2);
	result("prefetch for reading", advise(l, READ, 1, p, LEN, ro->lkey), 0);
	result("prefetch, not waiting for it", advise(l, WRITE, 0, p + 8 * PAGE, PAGE, mr->lkey), 0);
	result("prefetch for writing where that is not allowed", advise(l, WRITE, 1, p, LEN, ro->lkey), EPERM);
	result("prefetch with a wild key", advise(l, READ, 1, p, LEN, mr->lkey ^ 0x1ff00), EINVAL);
	result("prefetch past the region", advise(l, READ, 1, p, LEN + 1, mr->lkey), EFAULT);
	result("prefetch of a pinned region", advise(l, READ, 1, l->buf, 100, l->mr->lkey), EINVAL);
	munmap(p + 32 * PAGE, PAGE);
	result("prefetch of what is unmapped", advise(l, READ, 1, p, LEN, mr->lkey), EFAULT);
	if (ibv_dereg_mr(mr) || ibv_dereg_mr(ro))
		loop_die("dereg");
	munmap(p, LEN);
}

/* Everything comes from where there is nothing yet, and only that. */
static void comes(struct loop *l)
{
	unsigned char *p = map(PROT_READ | PROT_WRITE), *q = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = demand(l, p, ALL), *to = demand(l, q, ALL);
	unsigned char *zero = calloc(1, LEN);

	loop_connect(l, ALL);
	memset(l->buf, 0x77, LEN);
	result("write to fresh pages", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, q + 100, to, 3 * PAGE), 0);
	result("... puts it there", memcmp(q + 100, l->buf, 3 * PAGE) || q[99] || q[100 + 3 * PAGE], 0);
	result("read of fresh pages", request(l, IBV_WR_RDMA_READ, l->buf, l->mr, q + 8 * PAGE, to, 3 * PAGE), 0);
	result("... finds zeros", memcmp(l->buf, zero, 3 * PAGE), 0);
	result("write after that read", request(l, IBV_WR_RDMA_WRITE, l->buf + LEN / 2, l->mr, q + 8 * PAGE, to, 3 * PAGE), 0);
	result("... puts it there", memcmp(q + 8 * PAGE, l->buf + LEN / 2, 3 * PAGE), 0);
	result("write from fresh pages", request(l, IBV_WR_RDMA_WRITE, p, mr, q, to, PAGE), 0);
	result("... finds zeros", memcmp(q, zero, PAGE), 0);
	memset(l->buf, 0x66, LEN);
	result("read into fresh pages", request(l, IBV_WR_RDMA_READ, p + 8 * PAGE, mr, l->buf, l->mr, 5 * PAGE), 0);
	result("... puts it there", memcmp(p + 8 * PAGE, l->buf, 5 * PAGE), 0);
	receive(l, q + 32 * PAGE, to, 9 * PAGE);
	result("send into fresh pages", request(l, IBV_WR_SEND, l->buf, l->mr, NULL, to, 8 * PAGE + 5), 0);
	result("... is received", completion(l->cq[1]), 0);
	result("... puts it there", memcmp(q + 32 * PAGE, l->buf, 8 * PAGE + 5), 0);
	/* A child shares the pages until somebody writes. */
	int pipes[2];
	if (pipe(pipes))
		loop_die("pipe");
	pid_t child = fork();
	if (!child) {
		char c;
		close(pipes[1]);
		_exit(read(pipes[0], &c, 1) || q[32 * PAGE] != 0x66);
	}
	memset(l->buf, 0x55, LEN);
	result("write to pages shared with a child", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, q + 32 * PAGE, to, PAGE), 0);
	result("... puts it there", memcmp(q + 32 * PAGE, l->buf, PAGE), 0);
	close(pipes[1]);
	int status = -1;
	waitpid(child, &status, 0);
	result("... and not into the child's", status, 0);
	/* The region outlives what it was made of: new memory at the same address. */
	munmap(q, LEN);
	if (mmap(q, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != q)
		loop_die("mmap");
	result("write to memory mapped anew", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, q + 2 * PAGE, to, 2 * PAGE), 0);
	result("... puts it there", memcmp(q + 2 * PAGE, l->buf, 2 * PAGE), 0);
	loop_disconnect(l);
	if (ibv_dereg_mr(mr) || ibv_dereg_mr(to))
		loop_die("dereg");
	munmap(p, LEN);
	munmap(q, LEN);
	free(zero);
}

/* What cannot come is an error of the request that wants it. */
static void comes_not(struct loop *l)
{
	static const struct { const char *name; int remote, prot; enum ibv_wr_opcode opcode; int status; } cases[] = {
		{ "write to unmapped memory", 1, -1, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR },
		{ "read of unmapped memory", 1, -1, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR },
		{ "write from unmapped memory", 0, -1, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR },
		{ "read into unmapped memory", 0, -1, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR },
		{ "write to read-only memory", 1, PROT_READ, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR },
		{ "read of read-only memory", 1, PROT_READ, IBV_WR_RDMA_READ, IBV_WC_SUCCESS },
		{ "write from read-only memory", 0, PROT_READ, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS },
		{ "read into read-only memory", 0, PROT_READ, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		unsigned char *p = map(PROT_READ | PROT_WRITE);
		struct ibv_mr *mr = demand(l, p, ALL);

		loop_connect(l, ALL);
		if (cases[i].prot < 0)
			munmap(p, LEN);
		else
			mprotect(p, LEN, cases[i].prot);
		result(cases[i].name, cases[i].remote ?
		       request(l, cases[i].opcode, l->buf, l->mr, p + PAGE, mr, 2 * PAGE) :
		       request(l, cases[i].opcode, p + PAGE, mr, l->buf, l->mr, 2 * PAGE), cases[i].status);
		loop_disconnect(l);
		if (ibv_dereg_mr(mr))
			loop_die("dereg");
		if (cases[i].prot >= 0)
			munmap(p, LEN);
	}
}

/* Registration, and the end of everything with faults under way. */
static void registration(struct loop *l)
{
	result("the whole address space is refused", !!ibv_reg_mr(l->pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND), 0);
	struct ibv_mr *mr = ibv_reg_mr(l->pd, (void *)0x10000, LEN, ALL | IBV_ACCESS_ON_DEMAND);
	result("a region of memory that is not there yet", !!mr, 1);
	if (mr)
		ibv_dereg_mr(mr);
	for (int i = 0; i < 50; i++) {
		unsigned char *p = map(PROT_READ | PROT_WRITE);
		struct ibv_sge s = { (uintptr_t)l->buf, LEN, l->mr->lkey };
		struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *b;

		mr = demand(l, p, ALL);
		loop_connect(l, ALL);
		w.wr.rdma.remote_addr = (uintptr_t)p;
		w.wr.rdma.rkey = mr->rkey;
		if (ibv_post_send(l->qp[0], &w, &b))
			loop_die("post_send");
		if (i % 2)
			usleep(i * 20);
		if (i % 3 == 0)
			loop_disconnect(l);
		if (ibv_dereg_mr(mr))
			loop_die("dereg");
		munmap(p, LEN);
		if (i % 3)
			loop_disconnect(l);
	}
	result("destroyed while pages come", 0, 0);
}

int main(int argc, char **argv)
{
	struct loop l;

	if (argc != 3)
		return 2;
	loop_open(&l, argv[1], atoi(argv[2]));
	registration(&l);
	comes(&l);
	comes_not(&l);
	advice(&l);
	loop_close(&l);
	return bad;
}
