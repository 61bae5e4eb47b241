/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FAKEVERBS_H
#define FAKEVERBS_H

#include <linux/list.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>
#include <rdma/uverbs_types.h>

/* Names of operations, for the knobs and for the list of calls. */
#define FV_OPS(X)                                                             \
	X(query_device) X(query_port) X(query_port_speed)                      \
	X(alloc_ucontext) X(dealloc_ucontext) X(disassociate_ucontext)         \
	X(query_ucontext) X(ufile_hw_cleanup) X(mmap) X(mmap_free)             \
	X(mmap_get_pfns) X(alloc_pd) X(dealloc_pd) X(create_ah)                \
	X(create_user_ah) X(modify_ah) X(query_ah) X(destroy_ah)               \
	X(reg_user_mr) X(reg_user_mr_dmabuf) X(rereg_user_mr) X(reg_dm_mr)     \
	X(dereg_mr) X(advise_mr) X(alloc_mw) X(dealloc_mw) X(alloc_xrcd)       \
	X(dealloc_xrcd) X(alloc_dm) X(dealloc_dm) X(alloc_dmah)                \
	X(dealloc_dmah) X(create_cq) X(create_user_cq) X(resize_cq)            \
	X(modify_cq) X(poll_cq) X(notify_cq) X(destroy_cq) X(create_qp)        \
	X(modify_qp) X(query_qp) X(destroy_qp) X(post_send) X(post_recv)       \
	X(create_srq) X(modify_srq) X(query_srq) X(destroy_srq)                \
	X(post_srq_recv) X(create_wq) X(modify_wq) X(destroy_wq)               \
	X(create_rwq_ind_table) X(destroy_rwq_ind_table) X(attach_mcast)       \
	X(detach_mcast) X(create_flow) X(flow_spec) X(destroy_flow)            \
	X(create_flow_action) X(destroy_flow_action) X(create_counters)        \
	X(read_counters) X(destroy_counters) X(create_thing) X(read_thing)     \
	X(write_thing) X(any_thing) X(destroy_thing) X(alloc_stream)           \
	X(push_stream) X(destroy_stream) X(every_kind) X(create_comp_cntr)     \
	X(destroy_comp_cntr) X(modify_comp_cntr) X(read_comp_cntr)             \
	X(query_comp_cntr_caps) X(qp_attach_comp_cntr)

enum fv_op {
#define X(name) FV_##name,
	FV_OPS(X)
#undef X
	FV_OP_COUNT
};

#define FV_MAX_WR 4096
#define FV_MAX_SGE 16
#define FV_MAX_DM (1 << 20)

/* What an operation with driver data answers, as much of it as there is room for. */
struct fv_echo {
	__u32 id;
	__u32 op;
	__u32 inlen;
	__u32 outlen;
	__u64 in;
	__u64 arg[4];
};

/* Every object has a number of its own, which names it in the knobs and is its key or QPN. */
struct fv_obj {
	struct list_head list;
	const char *kind;
	u32 id;
	void *ib;
};

/* knobs.c */
int fv_call(enum fv_op op, u32 id, struct ib_udata *udata, u64 a, u64 b,
	    u64 c, u64 d);
int fv_call_atomic(enum fv_op op, u32 id, u64 a, u64 b);
u32 fv_new_id(void);
void fv_remember(struct fv_obj *obj, const char *kind, u32 id, void *ib);
void fv_forget(struct fv_obj *obj);
bool fv_objects_left(void);
/* Ends what uverbs has forgotten, since its end was refused. */
void fv_end_left(void);
int fv_knobs_init(void);
void fv_knobs_exit(void);

/* main.c */
int fv_register(void);
void fv_unregister(void);
void fv_unregister_later(void);
void fv_disassociate(void);
void fv_port_event(enum ib_event_type type);

struct fv_ucontext {
	struct ib_ucontext ib;
	struct fv_obj obj;
	struct rdma_user_mmap_entry *entry;
};

struct fv_pd {
	struct ib_pd ib;
	struct fv_obj obj;
};

struct fv_mr {
	struct ib_mr ib;
	struct fv_obj obj;
	struct dma_buf *dmabuf;
};

struct fv_cq {
	struct ib_cq ib;
	struct fv_obj obj;
	/* protects what follows */
	spinlock_t lock;
	struct ib_wc *ring;
	u32 size, head, count;
	bool armed;
};

struct fv_counters {
	struct ib_counters ib;
	struct fv_obj obj;
};

struct fv_flow_action {
	struct ib_flow_action ib;
	struct fv_obj obj;
};

static inline u32 fv_pd_id(struct ib_pd *pd)
{
	return pd ? container_of(pd, struct fv_pd, ib)->obj.id : 0;
}

static inline u32 fv_cq_id(struct ib_cq *cq)
{
	return cq ? container_of(cq, struct fv_cq, ib)->obj.id : 0;
}

/* queues.c */
int fv_complete(struct fv_cq *cq, const struct ib_wc *wc);
extern const struct ib_device_ops fv_queue_ops;

/* objects.c, flow.c, comp_cntr.c, definitions.c */
extern const struct ib_device_ops fv_object_ops;
extern const struct ib_device_ops fv_flow_ops;
extern const struct ib_device_ops fv_comp_cntr_ops;
extern const struct uapi_definition fv_defs[];
extern const struct uapi_definition fv_wrong_defs[];
int fv_query_ucontext(struct ib_ucontext *context,
		      struct uverbs_attr_bundle *attrs);
/* Attributes that the driver adds to methods of the core: a number in and out. */
int fv_added_attrs(struct uverbs_attr_bundle *attrs, u16 in, u16 out, u32 id);

enum {
	FV_ATTR_CQ_IN = UVERBS_ID_DRIVER_NS_WITH_UHW,
	FV_ATTR_CQ_OUT,
};

enum {
	FV_ATTR_QP_IN = UVERBS_ID_DRIVER_NS_WITH_UHW,
	FV_ATTR_QP_OUT,
};

enum {
	FV_ATTR_DM_IN = UVERBS_ID_DRIVER_NS,
	FV_ATTR_DM_OUT,
};

enum {
	FV_ATTR_COMP_CNTR_IN = UVERBS_ID_DRIVER_NS,
	FV_ATTR_COMP_CNTR_OUT,
};

#endif
