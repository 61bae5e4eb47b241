// SPDX-License-Identifier: GPL-2.0
/*
 * again DEVICE GID-INDEX [ours]: queues that are made after others were destroyed. The driver
 * may give memory that it had before to the same context again, which ours does: then the
 * indices must be those of an empty queue, and nobody who still has the old queue may see the
 * new one. Prints "ok NAME" or "not ok NAME: why" per case.
 */
#include "loop.h"
#include "result.h"
#include "rings.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { ENTRIES = 100, HEADER = 384, PRODUCER = 128, CONSUMER = 256, OLD = 0xa5, NEW = 0x5a };

/* The queue that is mapped now and was not when the queues were noted. */
static struct ring mapped_since(void)
{
	struct ring was[RINGS], new = { 0 };
	int count = ring_count;

	memcpy(was, rings, sizeof(was));
	rings_note();
	for (int i = 0; i < ring_count; i++) {
		int known = 0;

		for (int k = 0; k < count; k++)
			known |= was[k].at == rings[i].at;
		if (!known)
			new = rings[i];
	}
	if (!new.at)
		loop_die("find a new queue");
	return new;
}

static struct ibv_cq *make(struct ibv_context *ctx, struct ring *r)
{
	struct ibv_cq *cq;

	rings_note();
	cq = ibv_create_cq(ctx, ENTRIES, NULL, NULL, 0);
	if (!cq)
		loop_die("create_cq");
	*r = mapped_since();
	return cq;
}

static void destroy(struct ibv_cq *cq)
{
	if (ibv_destroy_cq(cq))
		loop_die("destroy_cq");
}

static long count_of(const struct ring *r, int what)
{
	const volatile unsigned char *at = (const volatile unsigned char *)r->at;
	long n = 0;

	for (size_t i = HEADER; i < r->len; i++)
		n += at[i] == what;
	return n;
}

static void fill(const struct ring *r, size_t from, int what)
{
	memset((char *)r->at + from, what, r->len - from);
}

static long indices(const struct ring *r)
{
	return r->at[PRODUCER / 4] | r->at[CONSUMER / 4];
}

static int poll_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	return ibv_poll_cq(cq, 1, &wc);
}

/* One after the other, the first of which was overwritten from end to end. */
static void one_after_another(struct ibv_context *ctx, int ours)
{
	struct ring r;
	struct ibv_cq *cq = make(ctx, &r);
	long size = r.len - HEADER;
	uint32_t log2_size = r.log2_size, mask = r.mask;

	result("the first queue of a context is zeros", count_of(&r, 0), size);
	fill(&r, 0, OLD);
	destroy(cq);
	cq = make(ctx, &r);
	result("the next one has its indices at zero", indices(&r), 0);
	result("... and its dimensions", r.log2_size == log2_size && r.mask == mask, 1);
	result("... and is empty", poll_none(cq), 0);
	if (ours)
		result("... and is the memory of the one before", count_of(&r, OLD), size);
	destroy(cq);
}

/* A child that inherited the old queue, and has given up the device. */
static void child_that_stays(struct ibv_context *ctx)
{
	int to_child[2], status = -1;
	struct ring r, next;
	struct ibv_cq *cq = make(ctx, &r);
	pid_t child;
	char go = 0;

	fill(&r, HEADER, OLD);
	if (pipe(to_child) || (child = fork()) < 0)
		loop_die("fork");
	if (!child) {
		close(to_child[1]);
		close(ctx->cmd_fd);
		if (read(to_child[0], &go, 1) != 1)
			_exit(2);
		_exit(count_of(&r, NEW) != 0);
	}
	destroy(cq);
	cq = make(ctx, &next);
	fill(&next, HEADER, NEW);
	if (write(to_child[1], &go, 1) != 1 || waitpid(child, &status, 0) != child)
		loop_die("wait for the child");
	result("who kept an old queue does not see the next", status, 0);
	close(to_child[0]);
	close(to_child[1]);
	destroy(cq);
}

/* A region over the queue keeps its pages when they are not mapped any more. */
static void region_that_stays(struct loop *l)
{
	struct ring r, next;
	struct ibv_cq *cq = make(l->ctx, &r);
	struct ibv_mr *mr = ibv_reg_mr(l->pd, (void *)r.at, r.len, IBV_ACCESS_LOCAL_WRITE);

	if (!mr) {
		printf("# a queue cannot be registered: %s\n", strerror(errno));
		destroy(cq);
		return;
	}
	/* Not what others have, so that it is known again. */
	fill(&r, HEADER, 0x77);
	destroy(cq);
	cq = make(l->ctx, &next);
	result("a queue that is a region is not used again", count_of(&next, 0x77), 0);
	destroy(cq);
	if (ibv_dereg_mr(mr))
		loop_die("dereg_mr");
}

/* Another context, of another process, gets nothing of it. */
static void stranger(const char *device)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		struct loop own;
		struct ring r;

		loop_open(&own, device, 0);
		make(own.ctx, &r);
		_exit(count_of(&r, 0) != r.len - HEADER);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		loop_die("fork");
	result("another process gets zeros", status, 0);
}

static void shared_receive(struct loop *l)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = ENTRIES, .max_sge = 1 } };
	struct ibv_recv_wr w = { .wr_id = 1 }, *b;
	struct ring r;
	long posted = 0;

	for (int round = 0; round < 2; round++) {
		rings_note();
		struct ibv_srq *srq = ibv_create_srq(l->pd, &attr);

		if (!srq)
			loop_die("create_srq");
		r = mapped_since();
		result("a shared receive queue has its indices at zero", indices(&r), 0);
		for (posted = 0; posted < 1000 && !ibv_post_srq_recv(srq, &w, &b); posted++)
			;
		result("... and all its room", posted, r.mask);
		fill(&r, 8, OLD);
		if (ibv_destroy_srq(srq))
			loop_die("destroy_srq");
	}
}

static void resized(struct ibv_context *ctx)
{
	struct ring r;
	struct ibv_cq *cq = make(ctx, &r);

	fill(&r, HEADER, OLD);
	for (int i = 0; i < 6; i++) {
		rings_note();
		result("resized", ibv_resize_cq(cq, i % 2 ? ENTRIES : 3 * ENTRIES), 0);
	}
	result("... again and again, it is empty", poll_none(cq), 0);
	destroy(cq);
}

/*
 * Pairs that are connected, written to, overwritten and destroyed: each starts from nothing. The C driver
 * reads its table of opcodes beyond the end when a queue of a pair is overwritten, and the kernel dies of it.
 */
static void pairs(struct loop *l, int ours)
{
	int good = 0;

	for (int round = 0; round < 10; round++) {
		struct ibv_sge s = { (uintptr_t)l->buf, 64, l->mr->lkey };
		struct ibv_send_wr w = { .wr_id = round, .sg_list = &s, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *b;
		struct ibv_wc wc = { 0 };

		loop_connect(l, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		w.wr.rdma.remote_addr = (uintptr_t)l->buf + 4096;
		w.wr.rdma.rkey = l->mr->rkey;
		if (ibv_post_send(l->qp[0], &w, &b))
			loop_die("post_send");
		for (int i = 0; i < 150000 && !ibv_poll_cq(l->cq[0], 1, &wc); i++)
			usleep(200);
		good += wc.wr_id == round && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE;
		rings_note();
		for (int i = 0; i < ring_count && ours; i++)
			fill(&rings[i], 0, OLD);
		loop_disconnect(l);
	}
	result("queue pairs made again carry messages", good, 10);
}

int main(int argc, char **argv)
{
	struct loop l;

	if (argc < 3)
		return 2;
	loop_open(&l, argv[1], atoi(argv[2]));
	one_after_another(l.ctx, argc > 3);
	child_that_stays(l.ctx);
	region_that_stays(&l);
	stranger(argv[1]);
	shared_receive(&l);
	resized(l.ctx);
	pairs(&l, argc > 3);
	return ended();
}
