// SPDX-License-Identifier: GPL-2.0
/*
 * memory DEVICE GID-INDEX [ours]: what regions and windows let pass and what not, atomic
 * writes, flushes, inline data, changed regions, shared buffers, and atomics beside the CPU's own. Prints
 * "ok NAME" or "not ok NAME: why" per case. A queue pair that goes while a window is bound by it is
 * for ours: the C driver waits 50 s for the window, frees the queue pair, and uses it when the window goes.
 */
#define _GNU_SOURCE
#include "loop.h"
#include "result.h"
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
       FLUSHES = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT };

/* A pair of queue pairs with the extended interface, the second in a domain of its own. */
static void join(struct loop *l, struct ibv_pd *other)
{
	for (int n = 0; n < 2; n++) {
		l->cq[n] = ibv_create_cq(l->ctx, 64, NULL, NULL, 0);
		struct ibv_qp_init_attr_ex ia = { .send_cq = l->cq[n], .recv_cq = l->cq[n], .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2,
				 .max_inline_data = 400 },
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = n ? other : l->pd,
			.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
				IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
				IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD };
		l->qp[n] = ibv_create_qp_ex(l->ctx, &ia);
		if (!l->cq[n] || !l->qp[n])
			loop_die("create qp");
	}
	for (int n = 0; n < 2; n++)
		if (loop_to_rts(l, n, l->qp[1 - n]->qp_num, ALL | FLUSHES))
			loop_die("connect");
}

static struct ibv_wc last;

static int completion(struct ibv_cq *cq)
{
	for (int i = 0; i < 60000; i++, usleep(500))
		if (ibv_poll_cq(cq, 1, &last))
			return last.status;
	return -1;
}

static struct ibv_qp_ex *begin(struct loop *l, int n)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(l->qp[n]);

	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

static int end(struct loop *l, int n)
{
	int error = ibv_wr_complete(ibv_qp_to_qp_ex(l->qp[n]));

	return error ? error : completion(l->cq[n]);
}

static int write_to(struct loop *l, uint32_t rkey, void *to, uint32_t len)
{
	struct ibv_qp_ex *qp = begin(l, 0);

	ibv_wr_rdma_write(qp, rkey, (uintptr_t)to);
	ibv_wr_set_sge(qp, l->mr->lkey, (uintptr_t)l->buf, len);
	return end(l, 0);
}

static int read_from(struct loop *l, uint32_t rkey, void *from, uint32_t len)
{
	struct ibv_qp_ex *qp = begin(l, 0);

	ibv_wr_rdma_read(qp, rkey, (uintptr_t)from);
	ibv_wr_set_sge(qp, l->mr->lkey, (uintptr_t)l->buf, len);
	return end(l, 0);
}

static int atomic_write(struct loop *l, uint32_t rkey, void *to, uint64_t value)
{
	struct ibv_qp_ex *qp = begin(l, 0);

	ibv_wr_atomic_write(qp, rkey, (uintptr_t)to, &value);
	return end(l, 0);
}

static int flush(struct loop *l, uint32_t rkey, void *at, size_t len, int type, int level)
{
	struct ibv_qp_ex *qp = begin(l, 0);

	ibv_wr_flush(qp, rkey, (uintptr_t)at, len, type, level);
	return end(l, 0);
}

/* After an error there is need of a new pair. */
static void anew(struct loop *l)
{
	loop_disconnect(l);
	join(l, l->pd);
}

static void atomic_writes(struct loop *l, unsigned char *p)
{
	struct ibv_mr *rw = ibv_reg_mr(l->pd, p, 4 * PAGE, ALL), *ro = ibv_reg_mr(l->pd, p, 4 * PAGE, IBV_ACCESS_REMOTE_READ);

	join(l, l->pd);
	memset(p, 0, 4 * PAGE);
	result("atomic write", atomic_write(l, rw->rkey, p + 16, 0x1122334455667788), IBV_WC_SUCCESS);
	result("... puts it there", *(uint64_t *)(p + 16) != 0x1122334455667788 || p[15] || p[24], 0);
	result("atomic write, unaligned", atomic_write(l, rw->rkey, p + 20, 1), IBV_WC_REM_INV_REQ_ERR);
	anew(l);
	result("atomic write past the region", atomic_write(l, rw->rkey, p + 4 * PAGE, 1), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("atomic write where it is not allowed", atomic_write(l, ro->rkey, p, 1), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("atomic write with a wild key", atomic_write(l, rw->rkey ^ 0x55, p, 1), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	ibv_dereg_mr(rw);
	ibv_dereg_mr(ro);
}

static void flushes(struct loop *l, unsigned char *p)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, p, 4 * PAGE, ALL | IBV_ACCESS_FLUSH_GLOBAL), *no = ibv_reg_mr(l->pd, p, 4 * PAGE, ALL);

	result("no persistence of memory without", !!ibv_reg_mr(l->pd, p, PAGE, ALL | IBV_ACCESS_FLUSH_PERSISTENT), 0);
	join(l, l->pd);
	result("flush of a range", flush(l, mr->rkey, p + 5, 3 * PAGE, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), IBV_WC_SUCCESS);
	result("flush of a region, whatever the range", flush(l, mr->rkey, p + PAGE, 1 << 30, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR),
	       IBV_WC_SUCCESS);
	result("flush past the region", flush(l, mr->rkey, p, 4 * PAGE + 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE),
	       IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("flush where it is not allowed", flush(l, no->rkey, p, PAGE, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE),
	       IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("flush for persistence where it is not allowed", flush(l, mr->rkey, p, PAGE, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE),
	       IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(no);
}

static void inlined(struct loop *l, unsigned char *p)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, p, 4 * PAGE, ALL);
	char text[400];

	join(l, l->pd);
	for (int i = 0; i < 10; i++) {
		struct ibv_qp_ex *qp = begin(l, 0);
		ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)p + i * 400);
		memset(text, 'a' + i, sizeof(text));
		ibv_wr_set_inline_data(qp, text, sizeof(text));
		ibv_wr_complete(qp);
		memset(text, 0, sizeof(text));
	}
	int good = 0;
	for (int i = 0; i < 10; i++)
		good += completion(l->cq[0]) == IBV_WC_SUCCESS;
	result("inline data", good, 10);
	for (int i = 0; i < 4000; i++)
		good -= p[i] != 'a' + i / 400;
	result("... is taken when it is posted", good, 10);
	struct ibv_sge s = { (uintptr_t)p, 2000, 0 };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE }, *b;
	result("inline data beyond the limit", !!ibv_post_send(l->qp[0], &w, &b), 1);
	loop_disconnect(l);
	ibv_dereg_mr(mr);
}

static int bind2(struct loop *l, struct ibv_mw *mw, uint32_t rkey, struct ibv_mr *mr, void *at, uint64_t len, int access)
{
	struct ibv_qp_ex *qp = begin(l, 1);
	struct ibv_mw_bind_info info = { .mr = mr, .addr = (uintptr_t)at, .length = len, .mw_access_flags = access };

	ibv_wr_bind_mw(qp, mw, rkey, &info);
	int status = end(l, 1);
	if (!status)
		mw->rkey = rkey;
	return status;
}

static int bind1(struct loop *l, struct ibv_mw *mw, struct ibv_mr *mr, void *at, uint64_t len, int access)
{
	struct ibv_mw_bind b = { .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr, .addr = (uintptr_t)at, .length = len, .mw_access_flags = access } };
	int error = ibv_bind_mw(l->qp[1], mw, &b);

	return error ? error : completion(l->cq[1]);
}

/* A new pair and a new window of type 2. The old one goes first: it may be bound. */
static struct ibv_mw *renew(struct loop *l, struct ibv_mw *old)
{
	ibv_dealloc_mw(old);
	anew(l);
	return ibv_alloc_mw(l->pd, IBV_MW_TYPE_2);
}

static void windows(struct loop *l, unsigned char *p, int ours)
{
	struct ibv_pd *pd = ibv_alloc_pd(l->ctx);
	struct ibv_mr *mr = ibv_reg_mr(l->pd, p, 4 * PAGE, ALL | IBV_ACCESS_MW_BIND), *far = ibv_reg_mr(pd, p, 4 * PAGE, ALL | IBV_ACCESS_MW_BIND),
		*no = ibv_reg_mr(l->pd, p, 4 * PAGE, ALL);
	struct ibv_mw *one = ibv_alloc_mw(l->pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(l->pd, IBV_MW_TYPE_2);
	uint32_t rkey;

	join(l, l->pd);
	result("window 1: bind", bind1(l, one, mr, p + 100, PAGE, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	result("window 1: inside", write_to(l, one->rkey, p + 100, PAGE), IBV_WC_SUCCESS);
	result("window 1: a bound region stays", !!ibv_dereg_mr(mr), 1);
	result("window 1: past its end", write_to(l, one->rkey, p + 101, PAGE), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("window 1: before its start", write_to(l, one->rkey, p + 99, 8), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("window 1: a right that it has not", read_from(l, one->rkey, p + 100, 8), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	rkey = one->rkey;
	result("window 1: bind again", bind1(l, one, mr, p, 2 * PAGE, IBV_ACCESS_REMOTE_READ), IBV_WC_SUCCESS);
	result("window 1: inside, reading", read_from(l, one->rkey, p, 2 * PAGE), IBV_WC_SUCCESS);
	result("window 1: the old key", read_from(l, rkey, p + 100, 8), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("window 1: unbind", bind1(l, one, mr, p, 0, 0), IBV_WC_SUCCESS);
	result("window 1: unbound", read_from(l, one->rkey, p, 8), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("window 1: to a region that forbids it", bind1(l, one, no, p, PAGE, IBV_ACCESS_REMOTE_READ) != IBV_WC_SUCCESS, 1);
	anew(l);

	rkey = ibv_inc_rkey(two->rkey);
	result("window 2: bind", bind2(l, two, rkey, mr, p, PAGE, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	result("window 2: inside", write_to(l, rkey, p, PAGE), IBV_WC_SUCCESS);
	result("window 2: bind while bound", bind2(l, two, ibv_inc_rkey(rkey), mr, p, PAGE, IBV_ACCESS_REMOTE_WRITE),
	       IBV_WC_MW_BIND_ERR);
	if (ours) {
		anew(l);
		/* The binder is gone, and with it the right of others to use the window. */
		result("window 2: through another queue pair", write_to(l, rkey, p, 8), IBV_WC_REM_ACCESS_ERR);
	}
	two = renew(l, two);
	rkey = ibv_inc_rkey(two->rkey);
	result("window 2: bind past the region", bind2(l, two, rkey, mr, p, 4 * PAGE + 1, IBV_ACCESS_REMOTE_WRITE), IBV_WC_MW_BIND_ERR);
	two = renew(l, two);
	rkey = ibv_inc_rkey(two->rkey);
	result("window 2: to a region of another domain", bind2(l, two, rkey, far, p, PAGE, IBV_ACCESS_REMOTE_WRITE), IBV_WC_MW_BIND_ERR);
	two = renew(l, two);
	rkey = ibv_inc_rkey(two->rkey);
	result("window 2: bind", bind2(l, two, rkey, mr, p, PAGE, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	struct ibv_recv_wr r = { .wr_id = 5 }, *b;
	ibv_post_recv(l->qp[1], &r, &b);
	struct ibv_qp_ex *qp = begin(l, 0);
	ibv_wr_send_inv(qp, rkey);
	ibv_wr_set_sge(qp, l->mr->lkey, (uintptr_t)l->buf, 0);
	result("window 2: invalidated by the peer", end(l, 0), IBV_WC_SUCCESS);
	result("... which is received", completion(l->cq[1]), IBV_WC_SUCCESS);
	result("... with the key", last.wc_flags & IBV_WC_WITH_INV ? last.invalidated_rkey == rkey : -1, 1);
	result("window 2: invalid", write_to(l, rkey, p, 8), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	rkey = ibv_inc_rkey(rkey);
	result("window 2: bind", bind2(l, two, rkey, mr, p, PAGE, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	qp = begin(l, 1);
	ibv_wr_local_inv(qp, rkey);
	result("window 2: invalidated by its owner", end(l, 1), IBV_WC_SUCCESS);
	result("window 2: invalid", write_to(l, rkey, p, 8), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);

	/* A responder in another domain. */
	join(l, pd);
	result("a region of another domain", write_to(l, mr->rkey, p, 8), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	join(l, pd);
	result("a window of another domain", bind1(l, one, far, p, PAGE, IBV_ACCESS_REMOTE_WRITE) != IBV_WC_SUCCESS, 1);
	loop_disconnect(l);
	if (ibv_dealloc_mw(one) || ibv_dealloc_mw(two) || ibv_dereg_mr(mr) || ibv_dereg_mr(far) || ibv_dereg_mr(no) || ibv_dealloc_pd(pd))
		loop_die("the end of windows");
}

static void changed(struct loop *l, unsigned char *p)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, p, PAGE, ALL);
	struct ibv_pd *pd = ibv_alloc_pd(l->ctx);

	join(l, l->pd);
	result("change of rights", rereg(l->ctx, mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ), 0);
	result("... leaves reading", read_from(l, mr->rkey, p, 100), IBV_WC_SUCCESS);
	result("... and no writing", write_to(l, mr->rkey, p, 100), IBV_WC_REM_ACCESS_ERR);
	anew(l);
	result("change back", rereg(l->ctx, mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, ALL), 0);
	result("... and writing", write_to(l, mr->rkey, p, 100), IBV_WC_SUCCESS);
	result("no persistence by a change", rereg(l->ctx, mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, ALL | IBV_ACCESS_FLUSH_PERSISTENT) != 0, 1);
	result("change of domain", rereg(l->ctx, mr, IBV_REREG_MR_CHANGE_PD, pd, 0), 0);
	result("... shuts out the old one", write_to(l, mr->rkey, p, 100), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	join(l, pd);
	result("... and lets in the new one", write_to(l, mr->rkey, p, 100), IBV_WC_SUCCESS);
	loop_disconnect(l);
	result("the new domain is in use", ibv_dealloc_pd(pd), EBUSY);
	result("change of memory", rereg(l->ctx, mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, 0) != 0, 1);
	ibv_dereg_mr(mr);
	result("and then no more", ibv_dealloc_pd(pd), 0);
}

/* Regions around the number of pages that the driver keeps in the region itself. */
static void sizes(struct loop *l)
{
	enum { MOST = 7, ASIDE = 100 };
	unsigned char *p = aligned_alloc(PAGE, (MOST + 1) * PAGE);
	char name[64];

	join(l, l->pd);
	for (int pages = 1; pages <= MOST; pages++) {
		size_t len = pages * PAGE - 2 * ASIDE;
		struct ibv_mr *mr = ibv_reg_mr(l->pd, p + ASIDE, len, ALL);

		memset(p, 0, (MOST + 1) * PAGE);
		for (size_t i = 0; i < len; i++)
			l->buf[i] = 1 + i % 251;
		snprintf(name, sizeof(name), "write to all of a region, pages: %d", pages);
		result(name, mr ? write_to(l, mr->rkey, p + ASIDE, len) : -1, IBV_WC_SUCCESS);
		snprintf(name, sizeof(name), "... puts it there, pages: %d", pages);
		result(name, memcmp(p + ASIDE, l->buf, len) || p[ASIDE - 1] || p[ASIDE + len], 0);
		if (mr)
			ibv_dereg_mr(mr);
	}
	loop_disconnect(l);
	free(p);
}

/* A buffer of the udmabuf driver, whose pages are those of a file in memory. */
static struct ibv_mr *share(struct loop *l, int fd, uint64_t offset, uint64_t len, uint64_t iova, int access)
{
	static struct ibv_mr mr;
	struct {
		struct ib_uverbs_ioctl_hdr h;
		struct ib_uverbs_attr a[9];
	} c;
	static const int ids[] = { UVERBS_ATTR_REG_DMABUF_MR_HANDLE, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE,
		UVERBS_ATTR_REG_DMABUF_MR_OFFSET, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, UVERBS_ATTR_REG_DMABUF_MR_IOVA,
		UVERBS_ATTR_REG_DMABUF_MR_FD, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
		UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY };
	static const int lens[] = { 0, 0, 8, 8, 8, 4, 4, 4, 4 };
	uint64_t data[] = { 0, l->pd->handle, offset, len, iova, fd, access, (uintptr_t)&mr.lkey, (uintptr_t)&mr.rkey };

	memset(&c, 0, sizeof(c));
	c.h.length = sizeof(c);
	c.h.object_id = UVERBS_OBJECT_MR;
	c.h.method_id = UVERBS_METHOD_REG_DMABUF_MR;
	c.h.num_attrs = 9;
	c.h.driver_id = RDMA_DRIVER_RXE;
	for (int i = 0; i < 9; i++) {
		c.a[i].attr_id = ids[i];
		c.a[i].len = lens[i];
		c.a[i].flags = UVERBS_ATTR_F_MANDATORY;
		c.a[i].data = data[i];
	}
	if (ioctl(l->ctx->cmd_fd, RDMA_VERBS_IOCTL, &c))
		return NULL;
	mr.handle = c.a[0].data;
	return &mr;
}

static int give_back(struct loop *l, struct ibv_mr *mr)
{
	struct ib_uverbs_attr a = { .attr_id = UVERBS_ATTR_DESTROY_MR_HANDLE, .data = mr->handle };

	return loop_ioctl(l->ctx, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, &a, 1);
}

static void shared(struct loop *l)
{
	int file = memfd_create("shared", MFD_ALLOW_SEALING), maker = open("/dev/udmabuf", O_RDWR);
	struct udmabuf_create u = { .memfd = file, .size = 8 * PAGE };

	if (maker < 0) {
		printf("skip a shared buffer: this kernel has no /dev/udmabuf\n");
		return;
	}
	if (ftruncate(file, 8 * PAGE) || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK))
		loop_die("memfd");
	unsigned char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	int fd = ioctl(maker, UDMABUF_CREATE, &u);
	if (fd < 0 || p == MAP_FAILED)
		loop_die("udmabuf");
	result("a shared buffer, more than it has", !!share(l, fd, 4 * PAGE, 5 * PAGE, 0, ALL), 0);
	result("a shared buffer, of a file that is none", !!share(l, file, 0, PAGE, 0, ALL), 0);
	struct ibv_mr *mr = share(l, fd, PAGE + 16, 6 * PAGE, 0x100000 + 16, ALL);
	result("a shared buffer", !!mr, 1);
	if (!mr)
		return;
	close(fd);
	join(l, l->pd);
	memset(l->buf, 0x33, 8 * PAGE);
	result("write to a shared buffer", write_to(l, mr->rkey, (void *)(0x100000ul + 16), 6 * PAGE), IBV_WC_SUCCESS);
	result("... puts it there", memcmp(p + PAGE + 16, l->buf, 6 * PAGE) || p[PAGE + 15] || p[7 * PAGE + 16], 0);
	memset(p, 0x44, 8 * PAGE);
	result("read of a shared buffer", read_from(l, mr->rkey, (void *)(0x100000ul + 100), 3 * PAGE), IBV_WC_SUCCESS);
	result("... finds what is there", memcmp(p, l->buf, 3 * PAGE), 0);
	result("write past a shared buffer", write_to(l, mr->rkey, (void *)(0x100000ul + 17), 6 * PAGE), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	result("the end of a shared buffer", give_back(l, mr), 0);
	munmap(p, 8 * PAGE);
	close(file);
	close(maker);
}

static uint64_t cell __attribute__((aligned(4096)));
static volatile int stop;
static uint64_t counted;

static void *count(void *arg)
{
	(void)arg;
	while (!stop) {
		__atomic_fetch_add(&cell, 1 << 20, __ATOMIC_SEQ_CST);
		counted++;
	}
	return NULL;
}

/* The CPU and the peer add to one word at the same time. */
static void beside_the_cpu(struct loop *l)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, &cell, 8, ALL);
	pthread_t thread;
	int good = 0;

	join(l, l->pd);
	if (pthread_create(&thread, NULL, count, NULL))
		loop_die("thread");
	for (int i = 0; i < 2000; i++) {
		struct ibv_qp_ex *qp = begin(l, 0);
		ibv_wr_atomic_fetch_add(qp, mr->rkey, (uintptr_t)&cell, 1);
		ibv_wr_set_sge(qp, l->mr->lkey, (uintptr_t)l->buf, 8);
		good += end(l, 0) == IBV_WC_SUCCESS;
	}
	stop = 1;
	pthread_join(thread, NULL);
	result("atomics beside the CPU's own", good, 2000);
	result("... none of either is lost", cell == (counted << 20) + 2000, 1);
	loop_disconnect(l);
	ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	struct loop l;
	unsigned char *p = aligned_alloc(PAGE, 4 * PAGE);

	if (argc < 3)
		return 2;
	loop_open(&l, argv[1], atoi(argv[2]));
	atomic_writes(&l, p);
	flushes(&l, p);
	inlined(&l, p);
	windows(&l, p, argc > 3);
	changed(&l, p);
	sizes(&l);
	shared(&l);
	beside_the_cpu(&l);
	loop_close(&l);
	return ended();
}
