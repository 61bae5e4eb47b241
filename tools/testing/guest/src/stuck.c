// SPDX-License-Identifier: GPL-2.0
/*
 * stuck DEVICE GID-INDEX FILE PAIRS [broken | leave | owner | again]: page faults that do not end.
 * Maps FILE, which cannot be read (stuckfs.py), registers it on demand, and connects PAIRS pairs of
 * queue pairs of one device. Every other pair writes to a page of the file by RDMA, and the others read into one;
 * "posted" is printed then. The process can change its mappings meanwhile. Waits until all requests
 * have completed, and prints "ended" and how many failed.
 *
 * With "broken", all requests must wait at first, and fail when reads of the file fail.
 *
 * With "leave", every other pair writes to the file and the others read from it, and the queue pairs
 * that have the file fail, are reset or are destroyed then: all requests must fail. With "owner", all
 * pairs read from the file, which another user context has: the context that reads can still fault
 * in memory of its own ("works" is printed), and advice about the file returns. With "again", all
 * pairs write to the file, and are reset and connected again then: other memory on demand can be
 * faulted in for them.
 */
#include "loop.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* What belongs to the context that makes requests, and to the one that has the file. */
static struct loop l, theirs;

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static struct ibv_comp_channel *channel;

static struct ibv_qp *queue_pair(struct loop *of)
{
	struct ibv_qp_init_attr ia = { .send_cq = of->cq[0], .recv_cq = of->cq[0], .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(of->pd, &ia);

	if (!qp)
		loop_die("create qp");
	return qp;
}

/* Waits for a completion without polling, and returns its status. */
static int completion(void)
{
	for (int armed = 0;; armed = !armed) {
		struct ibv_cq *cq;
		struct ibv_wc wc;
		void *context;
		int n = ibv_poll_cq(l.cq[0], 1, &wc);

		if (n < 0)
			loop_die("poll_cq");
		if (n)
			return wc.status;
		if (!armed && ibv_req_notify_cq(l.cq[0], 0))
			loop_die("req_notify_cq");
		if (armed) {
			if (ibv_get_cq_event(channel, &cq, &context))
				loop_die("get_cq_event");
			ibv_ack_cq_events(cq, 1);
		}
	}
}

/* Ends the reception of queue pairs, in each of the ways that there are. */
static void leave(struct ibv_qp **to, int pairs)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR }, reset = { .qp_state = IBV_QPS_RESET };

	for (int i = 0; i < pairs; i++) {
		int wrong = i % 3 == 0 ? ibv_modify_qp(to[i], &error, IBV_QP_STATE) :
			i % 3 == 1 ? ibv_modify_qp(to[i], &reset, IBV_QP_STATE) : ibv_destroy_qp(to[i]);

		if (wrong)
			loop_die("leave");
	}
}

static void connected(struct ibv_qp *from, struct ibv_qp *to)
{
	l.qp[0] = from;
	theirs.qp[0] = to;
	if (loop_to_rts(&l, 0, to->qp_num, ALL) || loop_to_rts(&theirs, 0, from->qp_num, ALL))
		loop_die("connect");
}

static void post(struct ibv_qp *qp, int write, void *at, uint32_t lkey, void *there, uint32_t rkey)
{
	struct ibv_sge s = { (uintptr_t)at, 64, lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.wr.rdma = { (uintptr_t)there, rkey } }, *b;

	if (ibv_post_send(qp, &w, &b))
		loop_die("post_send");
}

/* New memory on demand of a context, of which no page is present. */
static struct ibv_mr *absent(struct loop *of, size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = at == MAP_FAILED ? NULL : ibv_reg_mr(of->pd, at, len, ALL | IBV_ACCESS_ON_DEMAND);

	if (!mr)
		loop_die("other memory on demand");
	return mr;
}

/* The context that makes requests reads into memory of its own that is absent. */
static void own_memory(void)
{
	struct ibv_qp *from = queue_pair(&l), *to = queue_pair(&theirs);
	struct ibv_mr *mr = absent(&l, PAGE);

	connected(from, to);
	post(from, 0, mr->addr, mr->lkey, theirs.buf, theirs.mr->rkey);
	if (completion() != IBV_WC_SUCCESS)
		loop_die("own memory");
	say("works");
}

/* Resets pairs whose requests wait, and uses them for other memory. */
static void again(struct ibv_qp **from, struct ibv_qp **to, int pairs)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_mr *mr = absent(&theirs, (size_t)pairs * PAGE);

	loop_psn = 4096;
	for (int i = 0; i < pairs; i++) {
		if (ibv_modify_qp(from[i], &reset, IBV_QP_STATE) || ibv_modify_qp(to[i], &reset, IBV_QP_STATE))
			loop_die("reset");
		connected(from[i], to[i]);
		post(from[i], 1, l.buf, l.mr->lkey, (char *)mr->addr + (size_t)i * PAGE, mr->rkey);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc == 6 ? argv[5] : "";
	int leaves = !strcmp(mode, "leave"), owner = !strcmp(mode, "owner"), anew = !strcmp(mode, "again");
	int broken = !strcmp(mode, "broken");

	if (argc < 5 || argc > 6 || (argc == 6 && !broken && !leaves && !owner && !anew))
		return 2;
	int pairs = atoi(argv[4]), failed = 0;
	size_t len = (size_t)pairs * PAGE;
	struct ibv_qp **from = calloc(pairs, sizeof(*from)), **to = calloc(pairs, sizeof(*to));
	int fd = open(argv[3], O_RDWR);

	if (fd < 0)
		loop_die(argv[3]);
	unsigned char *file = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		loop_die("mmap");

	loop_open(&l, argv[1], atoi(argv[2]));
	theirs = l;
	if (owner)
		loop_open(&theirs, argv[1], atoi(argv[2]));
	struct ibv_mr *mr = ibv_reg_mr(theirs.pd, file, len, ALL | IBV_ACCESS_ON_DEMAND);
	channel = ibv_create_comp_channel(l.ctx);
	l.cq[0] = ibv_create_cq(l.ctx, pairs + 1, NULL, channel, 0);
	theirs.cq[0] = owner ? ibv_create_cq(theirs.ctx, pairs + 1, NULL, NULL, 0) : l.cq[0];
	if (!mr || !channel || !l.cq[0] || !theirs.cq[0])
		loop_die("mr or cq");
	for (int i = 0; i < pairs; i++) {
		from[i] = queue_pair(&l);
		to[i] = queue_pair(&theirs);
		connected(from[i], to[i]);
	}
	for (int i = 0; i < pairs; i++) {
		int write = anew || (!owner && i % 2);
		unsigned char *page = file + (size_t)i * PAGE;

		/* The file is at the other end, unless requests read into it. */
		if (write || leaves || owner)
			post(from[i], write, l.buf, l.mr->lkey, page, mr->rkey);
		else
			post(from[i], 0, page, mr->lkey, l.buf, l.mr->rkey);
	}
	for (int i = 0; i < 20; i++) {
		void *other = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (other == MAP_FAILED || munmap(other, PAGE))
			loop_die("other memory");
		usleep(100000);
	}
	if (broken) {
		struct ibv_wc wc;

		if (ibv_poll_cq(l.cq[0], 1, &wc))
			loop_die("a request did not wait");
	}
	say("posted");
	if (leaves)
		leave(to, pairs);
	if (owner) {
		/* Returns although nothing can be faulted in. */
		if (loop_advise(&theirs, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, 0, file, len, mr->lkey))
			loop_die("advice");
		own_memory();
	}
	if (anew)
		again(from, to, pairs);
	for (int i = 0; i < pairs; i++) {
		int status = completion();

		/* Not by the end of retries. */
		if (broken && status != IBV_WC_LOC_PROT_ERR && status != IBV_WC_REM_ACCESS_ERR &&
		    status != IBV_WC_REM_OP_ERR)
			loop_die(ibv_wc_status_str(status));
		failed += status != IBV_WC_SUCCESS;
	}
	printf("ended, %d failed\n", failed);
	return failed != (leaves || broken ? pairs : 0);
}
