/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two RC queue pairs of one process on one device, connected to each other, with a
 * completion queue each: the smallest ground on which errors can be provoked.
 */
#ifndef LOOP_H
#define LOOP_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct loop {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	unsigned char *buf;
	size_t len;
	union ibv_gid gid;
	int gid_index;
};

static inline void loop_die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static inline void loop_open(struct loop *l, const char *device, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	memset(l, 0, sizeof(*l));
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(device, ibv_get_device_name(list[i])))
			l->ctx = ibv_open_device(list[i]);
	if (!l->ctx)
		loop_die("open device");
	ibv_free_device_list(list);
	l->gid_index = gid_index;
	if (ibv_query_gid(l->ctx, 1, gid_index, &l->gid))
		loop_die("query gid");
	l->len = 1 << 20;
	l->buf = aligned_alloc(4096, l->len);
	l->pd = ibv_alloc_pd(l->ctx);
	l->mr = ibv_reg_mr(l->pd, l->buf, l->len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!l->pd || !l->mr)
		loop_die("pd or mr");
}

/* The first PSN either way. */
static uint32_t loop_psn;
/* How often a receiver may be not ready; 7 is for ever. */
static int loop_rnr_retry = 2;
/* How many reads and atomics a queue pair keeps of its peer. */
static int loop_depth = 4;

static inline int loop_to_rts(struct loop *l, int n, uint32_t dest, int access)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };

	if (ibv_modify_qp(l->qp[n], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest,
		.max_dest_rd_atomic = loop_depth, .min_rnr_timer = 1, .rq_psn = loop_psn,
		.ah_attr = { .is_global = 1, .port_num = 1,
			.grh = { .dgid = l->gid, .sgid_index = l->gid_index, .hop_limit = 1 } } };
	if (ibv_modify_qp(l->qp[n], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	/* A quarter of a second to answer in, since the machine may be busy: nothing gets lost here. */
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 7,
		.rnr_retry = loop_rnr_retry, .max_rd_atomic = 4, .sq_psn = loop_psn };
	return ibv_modify_qp(l->qp[n], &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static inline void loop_connect(struct loop *l, int access)
{
	for (int n = 0; n < 2; n++) {
		l->cq[n] = ibv_create_cq(l->ctx, 64, NULL, NULL, 0);
		if (!l->cq[n])
			loop_die("create cq");
		struct ibv_qp_init_attr ia = { .send_cq = l->cq[n], .recv_cq = l->cq[n], .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 } };
		l->qp[n] = ibv_create_qp(l->pd, &ia);
		if (!l->qp[n])
			loop_die("create qp");
	}
	for (int n = 0; n < 2; n++)
		if (loop_to_rts(l, n, l->qp[1 - n]->qp_num, access))
			loop_die("connect");
}

static inline void loop_disconnect(struct loop *l)
{
	for (int n = 0; n < 2; n++) {
		if (ibv_destroy_qp(l->qp[n]) || ibv_destroy_cq(l->cq[n]))
			loop_die("destroy");
	}
}

static inline void loop_close(struct loop *l)
{
	if (ibv_dereg_mr(l->mr) || ibv_dealloc_pd(l->pd) || ibv_close_device(l->ctx))
		loop_die("close");
	free(l->buf);
}

/* Calls a method for which librxe has no function, with at most 8 attributes, all mandatory. An errno or 0. */
static inline int loop_ioctl(struct ibv_context *ctx, int object, int method, const struct ib_uverbs_attr *a, int count)
{
	struct {
		struct ib_uverbs_ioctl_hdr h;
		struct ib_uverbs_attr a[8];
	} c;
	size_t size = count * sizeof(*a);

	memset(&c, 0, sizeof(c));
	c.h.length = sizeof(c.h) + size;
	c.h.object_id = object;
	c.h.method_id = method;
	c.h.num_attrs = count;
	c.h.driver_id = RDMA_DRIVER_RXE;
	memcpy(c.a, a, size);
	for (int i = 0; i < count; i++)
		c.a[i].flags = UVERBS_ATTR_F_MANDATORY;
	return ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, &c) ? errno : 0;
}

/* librxe has no rereg_mr, but the kernel has. An errno or 0. */
static inline int rereg(struct ibv_context *ctx, struct ibv_mr *mr, int flags, struct ibv_pd *pd, int access)
{
	struct ib_uverbs_rereg_mr in = { .mr_handle = mr->handle, .flags = flags, .access_flags = access,
					 .pd_handle = pd ? pd->handle : 0 };
	struct ib_uverbs_rereg_mr_resp out;
	struct ib_uverbs_attr a[] = {
		{ .attr_id = UVERBS_ATTR_WRITE_CMD, .len = 8, .data = IB_USER_VERBS_CMD_REREG_MR },
		{ .attr_id = UVERBS_ATTR_CORE_IN, .len = sizeof(in), .data = (uintptr_t)&in },
		{ .attr_id = UVERBS_ATTR_CORE_OUT, .len = sizeof(out), .data = (uintptr_t)&out },
	};

	return loop_ioctl(ctx, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, a, 3);
}

/* Nor has librxe advise_mr. An errno or 0. */
static inline int loop_advise(struct loop *l, int advice, int flush, void *at, uint32_t len, uint32_t lkey)
{
	struct ibv_sge s = { (uintptr_t)at, len, lkey };
	struct ib_uverbs_attr a[] = {
		{ .attr_id = UVERBS_ATTR_ADVISE_MR_PD_HANDLE, .data = l->pd->handle },
		{ .attr_id = UVERBS_ATTR_ADVISE_MR_ADVICE, .len = 8, .data = advice },
		{ .attr_id = UVERBS_ATTR_ADVISE_MR_FLAGS, .len = 4, .data = flush ? IB_UVERBS_ADVISE_MR_FLAG_FLUSH : 0 },
		{ .attr_id = UVERBS_ATTR_ADVISE_MR_SGE_LIST, .len = sizeof(s), .data = (uintptr_t)&s },
	};

	return loop_ioctl(l->ctx, UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, a, 4);
}

#endif
