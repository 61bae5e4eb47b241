// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of ib_cm. The path is that of an ID of rdma_cm, with a long packet life time, so that timewait
 * lasts for seconds.
 */
#include <linux/slab.h>
#include "cmcalls.h"

/* A service that the world listens on, and one that nobody does. */
#define SERVICE cpu_to_be64(0x1122334400000001ull)
#define NO_SERVICE cpu_to_be64(0x1122334400000002ull)
/* 2^(20 - 8) ms; timewait lasts twice as long. */
#define LIFE_TIME 20

enum state {
	IDLE,
	LISTEN,
	REQ_SENT,
	REQ_RCVD,
	MRA_REQ_SENT,
	REP_SENT,
	REP_RCVD,
	MRA_REP_SENT,
	ACTIVE,
	PASSIVE,
	DREQ_SENT,
	DREQ_RCVD,
	TIMEWAIT,
	SIDR_REQ_SENT,
	SIDR_REQ_RCVD,
	STATES,
};

static const char *const state_names[STATES] = {
	"idle", "listen", "req-sent", "req-rcvd", "mra-req-sent", "rep-sent", "rep-rcvd",
	"mra-rep-sent", "active", "passive", "dreq-sent", "dreq-rcvd", "timewait", "sidr-req-sent",
	"sidr-req-rcvd",
};

struct end {
	struct ib_cm_id *id;
	struct cmc_events events;
};

struct world {
	struct cmc *c;
	enum state state;
	struct ib_cm_id *listener;
	struct end active, passive;
	struct end *subject, *other;
	struct sa_path_rec path;
};

static int handler(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	struct world *w = id->context;
	struct end *end = id == w->active.id ? &w->active : &w->passive;
	int status = 0;

	switch (event->event) {
	case IB_CM_REQ_RECEIVED:
	case IB_CM_SIDR_REQ_RECEIVED:
		if (w->passive.id)
			return -EBUSY;
		w->passive.id = id;
		break;
	case IB_CM_REJ_RECEIVED:
		status = event->param.rej_rcvd.reason;
		break;
	case IB_CM_SIDR_REP_RECEIVED:
		status = event->param.sidr_rep_rcvd.status;
		break;
	case IB_CM_TIMEWAIT_EXIT:
	case IB_CM_MRA_RECEIVED:
		/* Come at any time. */
		return 0;
	default:
		break;
	}
	cmc_tell(&end->events, event->event, status);
	return 0;
}

static struct ib_cm_req_param req_param(struct world *w)
{
	return (struct ib_cm_req_param) {
		.primary_path = &w->path,
		.ppath_sgid_attr = w->c->donor->route.addr.dev_addr.sgid_attr,
		.service_id = SERVICE,
		.qp_num = 0x123456,
		.qp_type = IB_QPT_RC,
		.starting_psn = 5,
		.private_data = w->c->data,
		.responder_resources = 1,
		.initiator_depth = 1,
		.remote_cm_response_timeout = 20,
		.local_cm_response_timeout = 20,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.max_cm_retries = 15,
	};
}

static struct ib_cm_rep_param rep_param(struct world *w)
{
	return (struct ib_cm_rep_param) {
		.qp_num = 0x654321,
		.starting_psn = 6,
		.private_data = w->c->data,
		.responder_resources = 1,
		.initiator_depth = 1,
		.rnr_retry_count = 7,
	};
}

static struct ib_cm_sidr_req_param sidr_param(struct world *w)
{
	return (struct ib_cm_sidr_req_param) {
		.path = &w->path,
		.sgid_attr = w->c->donor->route.addr.dev_addr.sgid_attr,
		.service_id = SERVICE,
		.timeout_ms = 10000,
		.private_data = w->c->data,
		.max_cm_retries = 3,
	};
}

static bool to_req(struct world *w)
{
	struct ib_cm_req_param p = req_param(w);

	return !ib_send_cm_req(w->active.id, &p) &&
	       cmc_event_is(&w->passive.events, 0, IB_CM_REQ_RECEIVED);
}

static bool to_rep(struct world *w)
{
	struct ib_cm_rep_param p = rep_param(w);

	return to_req(w) && !ib_send_cm_rep(w->passive.id, &p) &&
	       cmc_event_is(&w->active.events, 0, IB_CM_REP_RECEIVED);
}

static bool to_established(struct world *w)
{
	return to_rep(w) && !ib_send_cm_rtu(w->active.id, NULL, 0) &&
	       cmc_event_is(&w->passive.events, 1, IB_CM_RTU_RECEIVED);
}

static bool to_dreq(struct world *w)
{
	return to_established(w) && !ib_send_cm_dreq(w->active.id, NULL, 0) &&
	       cmc_event_is(&w->passive.events, 2, IB_CM_DREQ_RECEIVED);
}

static bool to_sidr_req(struct world *w)
{
	struct ib_cm_sidr_req_param p = sidr_param(w);

	return !ib_send_cm_sidr_req(w->active.id, &p) &&
	       cmc_event_is(&w->passive.events, 0, IB_CM_SIDR_REQ_RECEIVED);
}

static bool reach(struct world *w)
{
	struct ib_device *device = w->c->donor->device;

	w->listener = ib_create_cm_id(device, handler, w);
	w->active.id = ib_create_cm_id(device, handler, w);
	if (IS_ERR(w->listener))
		w->listener = NULL;
	if (IS_ERR(w->active.id))
		w->active.id = NULL;
	if (!w->listener || !w->active.id || ib_cm_listen(w->listener, SERVICE))
		return false;
	w->subject = &w->active;
	w->other = &w->passive;
	switch (w->state) {
	case IDLE:
		return true;
	case LISTEN:
		return !ib_cm_listen(w->active.id, IB_CM_ASSIGN_SERVICE_ID);
	case REQ_SENT:
		return to_req(w);
	case REP_RCVD:
		return to_rep(w);
	case MRA_REP_SENT:
		return to_rep(w) && !ib_prepare_cm_mra(w->active.id);
	case ACTIVE:
		return to_established(w);
	case DREQ_SENT:
		return to_dreq(w);
	case TIMEWAIT:
		return to_dreq(w) && !ib_send_cm_drep(w->passive.id, NULL, 0) &&
		       cmc_event_is(&w->active.events, 1, IB_CM_DREP_RECEIVED);
	case SIDR_REQ_SENT:
		return to_sidr_req(w);
	default:
		break;
	}
	w->subject = &w->passive;
	w->other = &w->active;
	switch (w->state) {
	case REQ_RCVD:
		return to_req(w);
	case MRA_REQ_SENT:
		return to_req(w) && !ib_prepare_cm_mra(w->passive.id);
	case REP_SENT:
		return to_rep(w);
	case PASSIVE:
		return to_established(w);
	case DREQ_RCVD:
		return to_dreq(w);
	case SIDR_REQ_RCVD:
		return to_sidr_req(w);
	default:
		break;
	}
	return false;
}

static void leave(struct world *w)
{
	if (w->listener)
		ib_destroy_cm_id(w->listener);
	w->listener = NULL;
	/* A request may still be in its handler: the listener's end waits for it. */
	if (w->active.id)
		ib_destroy_cm_id(w->active.id);
	w->active.id = NULL;
	if (w->passive.id)
		ib_destroy_cm_id(w->passive.id);
	w->passive.id = NULL;
}

static void call_listen(struct world *w, struct ib_cm_id *id, struct call *call)
{
	/* SERVICE, NO_SERVICE, one that is assigned, and one that looks like it. */
	static const u64 services[] = {
		0x1122334400000001ull, 0x1122334400000002ull, 0x0200000000000000ull,
		0x0200000000000001ull,
	};
	u32 which = cmc_random(w->c, ARRAY_SIZE(services));

	NAME(call, "listen(%u)", which);
	call->ret = ib_cm_listen(id, cpu_to_be64(services[which]));
	call->effect = w->state == IDLE ? CHANGED : NONE;
}

static void call_insert(struct world *w, struct ib_cm_id *id, struct call *call)
{
	/* not: a service that is assigned, since only one user could have it. */
	static const u64 services[] = {
		0x1122334400000001ull, 0x1122334400000002ull, 0x0200000000000001ull,
	};
	u32 which = cmc_random(w->c, ARRAY_SIZE(services));
	struct ib_device *device = w->c->donor->device;
	struct ib_cm_id *first, *second;

	first = ib_cm_insert_listen(device, handler, cpu_to_be64(services[which]));
	second = ib_cm_insert_listen(device, handler, cpu_to_be64(services[which]));
	NAME(call, "insert_listen(%u) %s", which, first == second && !IS_ERR(first) ? "shared" : "-");
	call->ret = IS_ERR(first) ? PTR_ERR(first) : 0;
	if (!IS_ERR(second))
		ib_destroy_cm_id(second);
	if (!IS_ERR(first))
		ib_destroy_cm_id(first);
	call->effect = NONE;
}

static void call_req(struct world *w, struct ib_cm_id *id, struct call *call)
{
	struct ib_cm_req_param p = req_param(w);
	struct sa_path_rec other = w->path;
	u32 wrong = cmc_random(w->c, 8);

	p.private_data_len = cmc_length(w->c, 92);
	switch (wrong) {
	case 0:
		p.primary_path = NULL;
		break;
	case 1:
		p.qp_type = cmc_pick(w->c, IB_QPT_UD, IB_QPT_XRC_TGT, IB_QPT_GSI, 99);
		break;
	case 2:
		other.pkey = cpu_to_be16(0x1234);
		p.alternate_path = &other;
		break;
	case 3:
		other.mtu ^= 1;
		p.alternate_path = &other;
		break;
	case 4:
		p.service_id = NO_SERVICE;
		break;
	default:
		break;
	}
	NAME(call, "send_req(%u, %u)", wrong, p.private_data_len);
	call->ret = ib_send_cm_req(id, &p);
	if (call->ret)
		call->effect = w->state == IDLE ? CHANGED : NONE;
	else
		call->effect = wrong == 4 ? TELLS : TELLS_OTHER;
}

static void call_rep(struct world *w, struct ib_cm_id *id, struct call *call)
{
	struct ib_cm_rep_param p = rep_param(w);

	p.private_data_len = cmc_length(w->c, 196);
	p.initiator_depth = cmc_pick(w->c, 0, 1, 255);
	NAME(call, "send_rep(%u)", p.private_data_len);
	call->ret = ib_send_cm_rep(id, &p);
	call->effect = call->ret ? NONE : TELLS_OTHER;
}

static void call_rtu(struct world *w, struct ib_cm_id *id, struct call *call)
{
	u8 length = cmc_length(w->c, 224);

	NAME(call, "send_rtu(%u)", length);
	call->ret = ib_send_cm_rtu(id, w->c->data, length);
	call->effect = call->ret ? NONE : TELLS_OTHER;
}

static void call_rej(struct world *w, struct ib_cm_id *id, struct call *call)
{
	u8 length = cmc_length(w->c, 148), ari = cmc_length(w->c, 72);
	int reason = cmc_pick(w->c, 0, IB_CM_REJ_NO_RESOURCES, IB_CM_REJ_CONSUMER_DEFINED, 255);

	/* not: the C module then waits for the end of the REQ or REP, which is repeated for a minute. */
	if ((w->state == REQ_SENT || w->state == REP_SENT) && length <= 148 && ari <= 72) {
		call->effect = LEFT_OUT;
		return;
	}
	NAME(call, "send_rej(%d, %u, %u)", reason, ari, length);
	call->ret = ib_send_cm_rej(id, reason, w->c->data, ari, w->c->data, length);
	call->effect = call->ret ? NONE : TELLS_OTHER;
}

static void call_dreq(struct world *w, struct ib_cm_id *id, struct call *call)
{
	u8 length = cmc_length(w->c, 220);

	NAME(call, "send_dreq(%u)", length);
	call->ret = ib_send_cm_dreq(id, w->c->data, length);
	call->effect = call->ret ? NONE : TELLS_OTHER;
}

static void call_drep(struct world *w, struct ib_cm_id *id, struct call *call)
{
	u8 length = cmc_length(w->c, 224);

	/* not: the C module leaks data that are too long. */
	length = min_t(u8, length, 224);
	NAME(call, "send_drep(%u)", length);
	call->ret = ib_send_cm_drep(id, w->c->data, length);
	call->effect = call->ret ? NONE : TELLS_OTHER;
}

static void call_mra(struct world *w, struct ib_cm_id *id, struct call *call)
{
	NAME(call, "prepare_mra");
	call->ret = ib_prepare_cm_mra(id);
	call->effect = call->ret ? NONE : CHANGED;
}

static void call_notify(struct world *w, struct ib_cm_id *id, struct call *call)
{
	enum ib_event_type event = cmc_pick(w->c, IB_EVENT_COMM_EST, IB_EVENT_COMM_EST,
					    IB_EVENT_PATH_MIG, IB_EVENT_QP_FATAL, 99);

	/* not: the C module copies the alternate path, which is empty, without its references. */
	if (event == IB_EVENT_PATH_MIG && (w->state == ACTIVE || w->state == PASSIVE)) {
		call->effect = LEFT_OUT;
		return;
	}
	NAME(call, "notify(%d)", event);
	call->ret = ib_cm_notify(id, event);
	call->effect = call->ret ? NONE : TELLS;
}

static void call_sidr_req(struct world *w, struct ib_cm_id *id, struct call *call)
{
	struct ib_cm_sidr_req_param p = sidr_param(w);
	u32 wrong = cmc_random(w->c, 4);

	/* not: a wrong call on a busy ID changes the path, the timeouts and the service of the C one. */
	if (w->state != IDLE)
		wrong = 0;
	p.private_data_len = cmc_length(w->c, 216);
	if (wrong == 0)
		p.path = NULL;
	else if (wrong == 1)
		p.service_id = NO_SERVICE;
	NAME(call, "send_sidr_req(%u, %u)", wrong, p.private_data_len);
	call->ret = ib_send_cm_sidr_req(id, &p);
	if (call->ret)
		call->effect = NONE;
	else
		call->effect = wrong == 1 ? TELLS : TELLS_OTHER;
}

static void call_sidr_rep(struct world *w, struct ib_cm_id *id, struct call *call)
{
	struct ib_cm_sidr_rep_param p = {
		.qp_num = 0x123456,
		.qkey = 7,
		.status = cmc_pick(w->c, IB_SIDR_SUCCESS, IB_SIDR_REJECT, IB_SIDR_REDIRECT),
		.info = w->c->data,
		.info_length = cmc_length(w->c, 72),
		.private_data = w->c->data,
		.private_data_len = cmc_length(w->c, 136),
	};

	NAME(call, "send_sidr_rep(%u, %u, %u)", p.status, p.info_length, p.private_data_len);
	call->ret = ib_send_cm_sidr_rep(id, &p);
	call->effect = call->ret ? NONE : TELLS_OTHER;
}

static void call_attr(struct world *w, struct ib_cm_id *id, struct call *call)
{
	struct ib_qp_attr attr = { .qp_state = cmc_pick(w->c, 0, 1, 2, 3, 4, 5, 6, 7) };
	int mask = 0;

	call->ret = ib_cm_init_qp_attr(id, &attr, &mask);
	NAME(call, "init_qp_attr(%d) mask %x access %x qpn %x psn %x %x timeout %u rd %u %u", attr.qp_state,
	     call->ret ? 0 : mask, attr.qp_access_flags, attr.dest_qp_num, attr.rq_psn, attr.sq_psn,
	     attr.timeout, attr.max_rd_atomic, attr.max_dest_rd_atomic);
	call->effect = NONE;
}

static void call_text(struct world *w, struct ib_cm_id *id, struct call *call)
{
	int reason = (int)cmc_random(w->c, 40) - 2;

	NAME(call, "reject_msg(%d) \"%s\"", reason, ibcm_reject_msg(reason));
	call->effect = NONE;
}

typedef void (*caller)(struct world *w, struct ib_cm_id *id, struct call *call);

static const caller callers[] = {
	call_listen, call_insert, call_req, call_req, call_rep, call_rep, call_rtu, call_rtu,
	call_rej, call_rej, call_dreq, call_dreq, call_drep, call_drep, call_mra, call_notify,
	call_sidr_req, call_sidr_rep, call_sidr_rep, call_attr, call_attr, call_text,
};

static void in_state(struct world *w)
{
	struct cmc *c = w->c;
	bool there = false;
	unsigned int i;

	for (i = 0; i < c->tries; i++) {
		unsigned int mine, others;
		struct call call = {};

		if (!there) {
			cmc_events_init(&w->active.events);
			cmc_events_init(&w->passive.events);
			there = reach(w);
			if (!there) {
				c->lost++;
				cmc_say("ib %s is not reached\n", state_names[w->state]);
				leave(w);
				return;
			}
		}
		mine = cmc_count(&w->subject->events);
		others = cmc_count(&w->other->events);
		callers[cmc_random(c, ARRAY_SIZE(callers))](w, w->subject->id, &call);
		if (call.effect == LEFT_OUT)
			continue;
		cmc_answer(c, "ib ", state_names[w->state], &call, &w->subject->events, mine,
			   &w->other->events, others);
		/* Each stay in timewait is short. */
		if (call.effect != NONE || (w->state == TIMEWAIT && i % 8 == 7)) {
			leave(w);
			there = false;
		}
	}
	if (there)
		leave(w);
}

void cmc_run_cm(struct cmc *c)
{
	struct world *w = kzalloc(sizeof(*w), GFP_KERNEL);

	if (!w)
		return;
	w->c = c;
	w->path = *c->donor->route.path_rec;
	w->path.packet_life_time = LIFE_TIME;
	for (w->state = IDLE; w->state < STATES; w->state++)
		in_state(w);
	kfree(w);
}
