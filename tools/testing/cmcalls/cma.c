// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of rdma_cm. No ID has a queue pair of its own unless a call makes it, so that the consumer
 * moves each connection on (RDMA_CM_EVENT_CONNECT_RESPONSE).
 */
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/rdma_cm_ib.h>
#include "cmcalls.h"

enum state {
	IDLE,
	BOUND,
	BOUND_ANY,
	BOUND_ANY6,
	LISTENING,
	LISTENING_ANY,
	RESOLVED,
	ROUTED,
	CONNECTING,
	REQUESTED,
	RESPONDED,
	ACCEPTED,
	ACTIVE,
	PASSIVE,
	LEFT,
	LEFT_BY_PEER,
	REFUSED,
	STATES,
};

static const char *const state_names[STATES] = {
	"idle", "bound", "bound-any", "bound-any6", "listening", "listening-any", "resolved",
	"routed", "connecting", "requested", "responded", "accepted", "active", "passive", "left",
	"left-by-peer", "refused",
};

struct end {
	struct rdma_cm_id *id;
	struct cmc_events events;
};

/* A listener, and the ends of a connection. */
struct world {
	struct cmc *c;
	bool ud;
	enum state state;
	struct end listener, active, passive;
	/* Whom the calls are for, and who is told of what they do; may be NULL. */
	struct end *subject, *other;
};

static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct world *w = id->context;
	struct end *end = id == w->active.id ? &w->active : &w->passive;

	switch (event->event) {
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		/* Comes at any time. */
		return 0;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (w->passive.id)
			return -EBUSY;
		w->passive.id = id;
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		end = w->subject ?: &w->active;
		break;
	default:
		break;
	}
	cmc_tell(&end->events, event->event, event->status);
	return 0;
}

static struct sockaddr_in in4(__be32 address, u16 port)
{
	return (struct sockaddr_in) {
		.sin_family = AF_INET,
		.sin_addr.s_addr = address,
		.sin_port = htons(port),
	};
}

static struct rdma_cm_id *create(struct world *w)
{
	struct rdma_cm_id *id;

	id = rdma_create_id(&init_net, handler, w, w->ud ? RDMA_PS_UDP : RDMA_PS_TCP,
			    w->ud ? IB_QPT_UD : IB_QPT_RC);
	return IS_ERR(id) ? NULL : id;
}

static struct rdma_conn_param param(struct world *w)
{
	return (struct rdma_conn_param) {
		.private_data = w->c->data,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = 0x123456,
	};
}

static int accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int ret;

	rdma_lock_handler(id);
	ret = rdma_accept(id, param);
	rdma_unlock_handler(id);
	return ret;
}

/* The port that the world's listener got. */
static u16 port(struct world *w)
{
	return ntohs(((struct sockaddr_in *)&w->listener.id->route.addr.src_addr)->sin_port);
}

/* Each step is one call of the way to a state; @return false if the way is blocked. */
static bool to_listening(struct world *w)
{
	struct sockaddr_in own = in4(w->c->address, 0);

	w->listener.id = create(w);
	return w->listener.id && !rdma_bind_addr(w->listener.id, (struct sockaddr *)&own) &&
	       !rdma_listen(w->listener.id, 4);
}

static bool to_resolved(struct world *w)
{
	struct sockaddr_in to = in4(w->c->address, port(w));

	return !rdma_resolve_addr(w->active.id, NULL, (struct sockaddr *)&to, 2000) &&
	       cmc_event_is(&w->active.events, 0, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static bool to_routed(struct world *w)
{
	return to_resolved(w) && !rdma_resolve_route(w->active.id, 2000) &&
	       cmc_event_is(&w->active.events, 1, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static bool to_connecting(struct world *w)
{
	struct rdma_conn_param p = param(w);

	return to_routed(w) && !rdma_connect(w->active.id, &p) &&
	       cmc_event_is(&w->passive.events, 0, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* Both ends are on one device, so their queue pairs have different numbers. */
static struct rdma_conn_param accept_param(struct world *w)
{
	struct rdma_conn_param p = param(w);

	p.qp_num = 0x654321;
	return p;
}

static bool to_responded(struct world *w)
{
	struct rdma_conn_param p = accept_param(w);
	/* A datagram service has no third message. */
	int event = w->ud ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE;

	return to_connecting(w) && !accept(w->passive.id, &p) && cmc_event_is(&w->active.events, 2, event);
}

static bool to_established(struct world *w)
{
	return to_responded(w) && !accept(w->active.id, NULL) &&
	       cmc_event_is(&w->passive.events, 1, RDMA_CM_EVENT_ESTABLISHED);
}

static bool to_left(struct world *w)
{
	return to_established(w) && !rdma_disconnect(w->active.id) &&
	       cmc_event_is(&w->passive.events, 2, RDMA_CM_EVENT_DISCONNECTED);
}

static bool to_refused(struct world *w)
{
	int event = w->ud ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED;

	return to_connecting(w) && !rdma_reject(w->passive.id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED) &&
	       cmc_event_is(&w->active.events, 2, event);
}

static bool bind_any(struct world *w, int family)
{
	struct sockaddr_in6 any = { .sin6_family = family };

	return !rdma_bind_addr(w->active.id, (struct sockaddr *)&any);
}

static bool reach(struct world *w)
{
	struct sockaddr_in own = in4(w->c->address, 0);
	struct rdma_cm_id *id;

	w->active.id = id = create(w);
	if (!id || !to_listening(w))
		return false;
	w->subject = &w->active;
	w->other = NULL;
	switch (w->state) {
	case IDLE:
		return true;
	case BOUND:
		return !rdma_bind_addr(id, (struct sockaddr *)&own);
	case BOUND_ANY:
		return bind_any(w, AF_INET);
	case BOUND_ANY6:
		return bind_any(w, AF_INET6);
	case LISTENING:
		return !rdma_bind_addr(id, (struct sockaddr *)&own) && !rdma_listen(id, 2);
	case LISTENING_ANY:
		return bind_any(w, AF_INET) && !rdma_listen(id, 2);
	case RESOLVED:
		return to_resolved(w);
	case ROUTED:
		w->other = &w->passive;
		return to_routed(w);
	case CONNECTING:
		w->other = &w->passive;
		return to_connecting(w);
	case REQUESTED:
		w->subject = &w->passive;
		w->other = &w->active;
		return to_connecting(w);
	case RESPONDED:
		w->other = &w->passive;
		return to_responded(w);
	case ACCEPTED:
		w->subject = &w->passive;
		w->other = &w->active;
		return to_responded(w);
	case ACTIVE:
		w->other = &w->passive;
		return to_established(w);
	case PASSIVE:
		w->subject = &w->passive;
		w->other = &w->active;
		return to_established(w);
	case LEFT:
		w->other = &w->passive;
		return to_left(w);
	case LEFT_BY_PEER:
		w->subject = &w->passive;
		w->other = &w->active;
		return to_left(w);
	case REFUSED:
		return to_refused(w);
	case STATES:
		break;
	}
	return false;
}

static void leave(struct world *w)
{
	struct rdma_cm_id *ids[] = { w->listener.id, w->active.id, w->passive.id };
	int i;

	/* The listener first: no request comes any more. */
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		/* One may have come meanwhile. */
		if (i == 2)
			ids[i] = w->passive.id;
		if (!ids[i])
			continue;
		if (ids[i]->qp)
			rdma_destroy_qp(ids[i]);
		rdma_destroy_id(ids[i]);
	}
	w->listener.id = NULL;
	w->active.id = NULL;
	w->passive.id = NULL;
}

static void any_address(struct world *w, struct sockaddr_storage *to, char *name, size_t size)
{
	struct sockaddr_in *v4 = (void *)to;
	struct sockaddr_in6 *v6 = (void *)to;
	u16 number = cmc_pick(w->c, 0, 0, 80, -1);

	memset(to, 0, sizeof(*to));
	snprintf(name, size, "?");
	if (number == 0xffff)
		number = port(w);
	switch (cmc_random(w->c, 10)) {
	case 0:
		*v4 = in4(w->c->address, number);
		snprintf(name, size, "own");
		break;
	case 1:
		*v4 = in4(htonl(INADDR_ANY), number);
		snprintf(name, size, "any");
		break;
	case 2:
		*v4 = in4(htonl(INADDR_LOOPBACK), number);
		snprintf(name, size, "loopback");
		break;
	case 3:
		/* TEST-NET-1: nobody has it, and no route leads to it. */
		*v4 = in4(htonl(0xc0000201), number);
		snprintf(name, size, "foreign");
		break;
	case 4:
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(number);
		snprintf(name, size, "any6");
		break;
	case 5:
		v6->sin6_family = AF_INET6;
		v6->sin6_addr.s6_addr32[0] = htonl(0x20010db8);
		v6->sin6_port = htons(number);
		snprintf(name, size, "foreign6");
		break;
	case 6:
		/* Without a scope. */
		v6->sin6_family = AF_INET6;
		v6->sin6_addr.s6_addr32[0] = htonl(0xfe800000);
		v6->sin6_addr.s6_addr32[3] = htonl(1);
		snprintf(name, size, "link-local");
		break;
	case 7:
		v6->sin6_family = AF_INET6;
		v6->sin6_addr.s6_addr32[0] = htonl(0xfe800000);
		v6->sin6_addr.s6_addr32[3] = htonl(1);
		v6->sin6_scope_id = 9999;
		snprintf(name, size, "link-local elsewhere");
		break;
	case 8:
		to->ss_family = AF_UNIX;
		snprintf(name, size, "unix");
		break;
	default:
		snprintf(name, size, "no family");
		break;
	}
	if (number)
		snprintf(name + strlen(name), size - strlen(name), number == 80 ? ":80" : ":taken");
}

static void call_bind(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct sockaddr_storage to;
	char name[40];

	any_address(w, &to, name, sizeof(name));
	NAME(call, "bind_addr(%s)", name);
	call->ret = rdma_bind_addr(id, (struct sockaddr *)&to);
	/* A failed call leaves the address, which later calls may see. */
	call->effect = w->state == IDLE ? CHANGED : NONE;
}

static void call_resolve_addr(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	bool bound = w->state <= BOUND_ANY6;
	bool with_source = cmc_random(w->c, 2);
	struct sockaddr_storage from, to;
	char from_name[40], to_name[40];

	any_address(w, &from, from_name, sizeof(from_name));
	any_address(w, &to, to_name, sizeof(to_name));
	/*
	 * not: without a source, the C module sets the interface of a link-local destination before it
	 * refuses. An ID whose route is known is then not found in the tree of peers when it is
	 * destroyed, and stays there.
	 */
	if (!bound && (!with_source || !from.ss_family) && !strncmp(to_name, "link-local", 10)) {
		call->effect = LEFT_OUT;
		return;
	}
	NAME(call, "resolve_addr(%s, %s)", with_source ? from_name : "NULL", to_name);
	call->ret = rdma_resolve_addr(id, with_source ? (struct sockaddr *)&from : NULL,
				      (struct sockaddr *)&to, 500);
	call->effect = bound ? CHANGED : NONE;
	if (!call->ret)
		call->effect = TELLS;
}

static void call_resolve_route(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	unsigned long timeout = cmc_pick(w->c, 0, 1, 2000);

	NAME(call, "resolve_route(%lu)", timeout);
	call->ret = rdma_resolve_route(id, timeout);
	call->effect = call->ret ? NONE : TELLS;
}

static void call_resolve_service(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct rdma_ucm_ib_service service = {
		.flags = cmc_pick(w->c, 0, 1, 2, 3),
		.service_id = cmc_random(w->c, 100),
	};

	NAME(call, "resolve_ib_service(%u)", service.flags);
	call->ret = rdma_resolve_ib_service(id, &service);
	call->effect = call->ret ? NONE : TELLS;
}

static void call_set_path(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct sa_path_rec path = *w->c->donor->route.path_rec;

	NAME(call, "set_ib_path");
	call->ret = rdma_set_ib_path(id, &path);
	call->effect = call->ret ? NONE : CHANGED;
}

static void call_listen(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	int backlog = cmc_pick(w->c, 0, 1, -1, 1000000);

	NAME(call, "listen(%d)", backlog);
	call->ret = rdma_listen(id, backlog);
	call->effect = w->state == IDLE || !call->ret ? CHANGED : NONE;
}

static void any_param(struct world *w, struct rdma_conn_param *p, unsigned int limit)
{
	*p = param(w);
	/* not: numbers of queue pairs of more than 24 bits, of which the C ib_cm warns. */
	p->qp_num = cmc_random(w->c, 1 << 24);
	p->private_data_len = cmc_length(w->c, limit);
	p->responder_resources = cmc_pick(w->c, 0, 1, 16, 255);
	p->initiator_depth = cmc_pick(w->c, 0, 1, 16, 255);
	p->retry_count = cmc_pick(w->c, 0, 7, 255);
	p->rnr_retry_count = cmc_pick(w->c, 0, 7);
	p->flow_control = cmc_random(w->c, 2);
	p->srq = cmc_random(w->c, 2);
	p->qkey = cmc_pick(w->c, 0, 0x1234567, -1);
}

static void call_connect(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct rdma_ucm_ece ece = { .vendor_id = 0x15b3, .attr_mod = 1 };
	struct rdma_conn_param p;
	bool with_ece = cmc_random(w->c, 2);

	any_param(w, &p, (w->ud ? 216 : 92) - 36);
	NAME(call, "connect%s(%u)", with_ece ? "_ece" : "", p.private_data_len);
	call->ret = with_ece ? rdma_connect_ece(id, &p, &ece) : rdma_connect(id, &p);
	call->effect = call->ret ? NONE : TELLS_OTHER;
}

static void call_accept(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct rdma_ucm_ece ece = { .vendor_id = 0x15b3, .attr_mod = 1 };
	bool with_param = cmc_random(w->c, 4), with_ece = cmc_random(w->c, 2);
	bool connected = w->state >= CONNECTING && w->state <= PASSIVE;
	struct rdma_conn_param p;

	/*
	 * not: what fails rejects, and the C ib_cm then waits for the end of the REQ, or of the REP,
	 * which it repeats for a minute.
	 */
	if (w->state == CONNECTING || w->state == ACCEPTED) {
		call->effect = LEFT_OUT;
		return;
	}
	any_param(w, &p, w->ud ? 136 : 196);
	NAME(call, "accept%s(%d)", with_ece ? "_ece" : "", with_param ? p.private_data_len : -1);
	rdma_lock_handler(id);
	call->ret = with_ece ? rdma_accept_ece(id, with_param ? &p : NULL, &ece) :
			       rdma_accept(id, with_param ? &p : NULL);
	rdma_unlock_handler(id);
	if (w->state == REQUESTED || w->state == RESPONDED)
		call->effect = w->ud && w->state == RESPONDED ? CHANGED : TELLS_OTHER;
	else
		call->effect = connected || !call->ret ? CHANGED : NONE;
	/* Refused for its length, so is the rejection. */
	if (w->ud && call->ret)
		call->effect = CHANGED;
}

static void call_reject(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	u8 length = cmc_length(w->c, w->ud ? 136 : 148);
	u8 reason = cmc_pick(w->c, 0, 1, 28, 35, 255);

	/* not: as in call_accept. */
	if (w->state == CONNECTING || w->state == ACCEPTED) {
		call->effect = LEFT_OUT;
		return;
	}
	NAME(call, "reject(%u, %u)", length, reason);
	call->ret = rdma_reject(id, w->c->data, length, reason);
	if (call->ret)
		call->effect = NONE;
	else
		call->effect = w->state == REQUESTED ? TELLS_OTHER : CHANGED;
}

static void call_disconnect(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	NAME(call, "disconnect");
	call->ret = rdma_disconnect(id);
	call->effect = NONE;
	if (w->state == ACTIVE || w->state == PASSIVE)
		call->effect = w->ud ? NONE : TELLS_OTHER;
	else if (w->state == LEFT_BY_PEER)
		call->effect = w->ud ? NONE : TELLS_OTHER;
}

static void call_notify(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	enum ib_event_type event = cmc_pick(w->c, IB_EVENT_COMM_EST, IB_EVENT_PATH_MIG,
					    IB_EVENT_CQ_ERR, IB_EVENT_QP_FATAL, 99);

	/* not: the C module copies the alternate path, which is empty, without its references. */
	if (event == IB_EVENT_PATH_MIG && (w->state == ACTIVE || w->state == PASSIVE)) {
		call->effect = LEFT_OUT;
		return;
	}
	NAME(call, "notify(%d)", event);
	call->ret = rdma_notify(id, event);
	/* The subject is told that it is established. */
	call->effect = NONE;
	if (w->state == ACCEPTED && event == IB_EVENT_COMM_EST)
		call->effect = call->ret ? CHANGED : TELLS;
}

static void call_join(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct sockaddr_storage group;
	u8 state = cmc_pick(w->c, BIT(FULLMEMBER_JOIN), BIT(SENDONLY_FULLMEMBER_JOIN));
	struct sockaddr_in *v4 = (void *)&group;
	struct sockaddr_in6 *v6 = (void *)&group;
	char name[40];

	/*
	 * not: an ID with a queue pair, of which the C module warns; addresses of one host, for which
	 * it sends IGMP reports.
	 */
	if (id->qp) {
		call->effect = LEFT_OUT;
		return;
	}
	memset(&group, 0, sizeof(group));
	switch (cmc_random(w->c, 5)) {
	case 0:
		*v4 = in4(htonl(INADDR_ANY), 0);
		snprintf(name, sizeof(name), "any");
		break;
	case 1:
		v6->sin6_family = AF_INET6;
		snprintf(name, sizeof(name), "any6");
		break;
	case 2:
		v6->sin6_family = AF_INET6;
		v6->sin6_addr.s6_addr32[0] = htonl(0xff0e0000);
		v6->sin6_addr.s6_addr32[3] = htonl(7);
		snprintf(name, sizeof(name), "group6");
		break;
	default:
		*v4 = in4(htonl(0xe0010203), 0);
		snprintf(name, sizeof(name), "group");
		break;
	}
	NAME(call, "join_multicast(%s, %u)", name, state);
	call->ret = rdma_join_multicast(id, (struct sockaddr *)&group, state, w);
	call->effect = call->ret ? NONE : TELLS;
}

static void call_leave(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct sockaddr_in group = in4(htonl(0xe0010203), 0);

	NAME(call, "leave_multicast");
	rdma_leave_multicast(id, (struct sockaddr *)&group);
	call->effect = NONE;
}

static void call_option(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	int value = cmc_pick(w->c, 0, 1, 31, 32, 255);

	call->effect = NONE;
	switch (cmc_random(w->c, 6)) {
	case 0:
		NAME(call, "set_ack_timeout(%d)", value);
		call->ret = rdma_set_ack_timeout(id, value);
		break;
	case 1:
		/* not: the C module warns of an ID for datagrams. */
		if (w->ud)
			value |= 0xe0;
		NAME(call, "set_min_rnr_timer(%d)", value);
		call->ret = rdma_set_min_rnr_timer(id, value);
		break;
	case 2:
		value &= 1;
		NAME(call, "set_reuseaddr(%d)", value);
		call->ret = rdma_set_reuseaddr(id, value);
		/* Binding and listening depend on it. */
		if (!call->ret)
			call->effect = CHANGED;
		break;
	case 3:
		value &= 1;
		NAME(call, "set_afonly(%d)", value);
		call->ret = rdma_set_afonly(id, value);
		if (!call->ret)
			call->effect = CHANGED;
		break;
	case 4:
		NAME(call, "set_service_type(%d)", value);
		rdma_set_service_type(id, value);
		break;
	default:
		value = cmc_pick(w->c, 0, RDMA_NODE_IB_CA, RDMA_NODE_RNIC, RDMA_NODE_IB_SWITCH,
				 RDMA_NODE_UNSPECIFIED);
		NAME(call, "restrict_node_type(%d)", value);
		call->ret = rdma_restrict_node_type(id, value);
		if (!call->ret)
			call->effect = CHANGED;
		break;
	}
}

static void call_create_qp(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct ib_qp_init_attr attr = {
		.send_cq = w->c->cq,
		.recv_cq = w->c->cq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = cmc_pick(w->c, IB_QPT_RC, IB_QPT_RC, IB_QPT_UD, IB_QPT_UC),
		.cap = {
			.max_send_wr = cmc_pick(w->c, 1, 4, 4, 1 << 30),
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = cmc_pick(w->c, 1, 1, 100000),
		},
	};

	/* not: the C module forgets the queue pair that the ID has. */
	if (id->qp) {
		call->effect = LEFT_OUT;
		return;
	}
	NAME(call, "create_qp(%d, %u, %u)", attr.qp_type, attr.cap.max_send_wr, attr.cap.max_recv_sge);
	call->ret = rdma_create_qp(id, w->c->pd, &attr);
	call->effect = call->ret ? NONE : CHANGED;
}

static void call_attr(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	struct ib_qp_attr attr = { .qp_state = cmc_pick(w->c, 0, 1, 2, 3, 4, 5, 6, 7) };
	int mask = 0;

	/* not: the C module follows the device, which is not there. */
	if (!id->device) {
		call->effect = LEFT_OUT;
		return;
	}
	call->ret = rdma_init_qp_attr(id, &attr, &mask);
	NAME(call, "init_qp_attr(%d) mask %x access %x timeout %d", attr.qp_state,
	     call->ret ? 0 : mask, call->ret ? 0 : attr.qp_access_flags,
	     mask & IB_QP_TIMEOUT && !call->ret ? attr.timeout : -1);
	call->effect = NONE;
}

static void call_text(struct world *w, struct rdma_cm_id *id, struct call *call)
{
	int number = (int)cmc_random(w->c, 40) - 2;
	struct rdma_cm_event event = { .status = number };
	union ib_gid source = {}, destination = {};
	u8 length = 77;

	call->effect = NONE;
	switch (cmc_random(w->c, 5)) {
	case 0:
		/* not: the C function has texts for 16 events and takes an index. */
		number = clamp(number, 0, 15);
		NAME(call, "event_msg(%d) \"%s\"", number, rdma_event_msg(number));
		break;
	case 1:
		if (!id->device) {
			call->effect = LEFT_OUT;
			return;
		}
		NAME(call, "reject_msg(%d) \"%s\"", number, rdma_reject_msg(id, number));
		break;
	case 2:
		if (!id->device) {
			call->effect = LEFT_OUT;
			return;
		}
		rdma_consumer_reject_data(id, &event, &length);
		NAME(call, "consumer_reject_data(%d) %u", number, length);
		break;
	case 3:
		rdma_read_gids(id, &source, &destination);
		NAME(call, "read_gids %pI6 %pI6", source.raw, destination.raw);
		break;
	default:
		if (!id->device) {
			call->effect = LEFT_OUT;
			return;
		}
		NAME(call, "iw_cm_id %d", !!rdma_iw_cm_id(id));
		break;
	}
}

typedef void (*caller)(struct world *w, struct rdma_cm_id *id, struct call *call);

static const caller callers[] = {
	call_bind, call_resolve_addr, call_resolve_route, call_resolve_service, call_set_path,
	call_listen, call_connect, call_connect, call_accept, call_accept, call_reject,
	call_disconnect, call_notify, call_join, call_leave, call_option, call_option,
	call_create_qp, call_attr, call_attr, call_text,
};

static void in_state(struct world *w)
{
	struct cmc *c = w->c;
	bool there = false;
	unsigned int i;

	for (i = 0; i < c->tries; i++) {
		unsigned int mine, others = 0;
		struct call call = {};

		if (!there) {
			cmc_events_init(&w->active.events);
			cmc_events_init(&w->passive.events);
			there = reach(w);
			if (!there) {
				c->lost++;
				cmc_say("%s%s is not reached\n", w->ud ? "ud-" : "", state_names[w->state]);
				leave(w);
				return;
			}
		}
		mine = cmc_count(&w->subject->events);
		if (w->other)
			others = cmc_count(&w->other->events);
		callers[cmc_random(c, ARRAY_SIZE(callers))](w, w->subject->id, &call);
		if (call.effect == LEFT_OUT)
			continue;
		cmc_answer(c, w->ud ? "ud-" : "", state_names[w->state], &call, &w->subject->events, mine,
			   w->other ? &w->other->events : NULL, others);
		if (call.effect != NONE) {
			leave(w);
			there = false;
		}
	}
	if (there)
		leave(w);
}

void cmc_run_cma(struct cmc *c)
{
	struct world *w = kzalloc(sizeof(*w), GFP_KERNEL);
	int ud;

	if (!w)
		return;
	w->c = c;
	for (ud = 0; ud < 2; ud++) {
		w->ud = ud;
		for (w->state = IDLE; w->state < STATES; w->state++) {
			/* A datagram service is not disconnected, and not established by a third message. */
			if (w->ud && w->state >= ACTIVE && w->state != REFUSED)
				continue;
			in_state(w);
		}
	}
	kfree(w);
}
