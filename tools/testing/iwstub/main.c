// SPDX-License-Identifier: GPL-2.0
/*
 * iwstub: a provider and a consumer of iw_cm in one module. The provider carries no
 * data: it sends the events that a case asks for, also ones that no provider should
 * send. All cases run when the module is loaded, and tell their results in the log.
 *
 * wrong=1 adds the cases in which the C iw_cm stops the machine (BUG), hangs or leaks.
 */
#define pr_fmt(fmt) "iwstub: " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#define QPN 7
#define SECONDS 20

static bool wrong;
module_param(wrong, bool, 0444);
MODULE_PARM_DESC(wrong, "also run what the C module does not survive");

static unsigned int races = 2000;
module_param(races, uint, 0444);
MODULE_PARM_DESC(races, "rounds of destruction against events");

/* The provider */

static struct ib_device *device;
static struct ib_qp qp;
static atomic_t qp_refs, listens, unlistens, connects, accepts, rejects;
static enum ib_qp_state qp_state;
/* What the provider's methods answer. */
static int answer;
/* An event that connect or accept sends before it returns, or 0. */
static enum iw_cm_event_type within;
static int within_result;

static int send(struct iw_cm_id *id, enum iw_cm_event_type type, int status,
		void *data, u8 len)
{
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.private_data = data,
		.private_data_len = len,
		.provider_data = &qp,
		.ord = 3,
		.ird = 5,
	};
	struct sockaddr_in *local = (void *)&event.local_addr;
	struct sockaddr_in *remote = (void *)&event.remote_addr;

	local->sin_family = AF_INET;
	local->sin_addr.s_addr = htonl(0x0a000101);
	local->sin_port = htons(11);
	remote->sin_family = AF_INET;
	remote->sin_addr.s_addr = htonl(0x0a000102);
	remote->sin_port = htons(12);
	return id->event_handler(id, &event);
}

static void add_ref(struct ib_qp *ib)
{
	atomic_inc(&qp_refs);
}

static void rem_ref(struct ib_qp *ib)
{
	atomic_dec(&qp_refs);
}

static struct ib_qp *get_qp(struct ib_device *ib, int qpn)
{
	return qpn == QPN ? &qp : NULL;
}

static int in_call(struct iw_cm_id *id)
{
	if (within)
		within_result = send(id, within, 0, NULL, 0);
	return answer;
}

static int stub_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	atomic_inc(&connects);
	return in_call(id);
}

static int stub_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	atomic_inc(&accepts);
	return in_call(id);
}

static int stub_reject(struct iw_cm_id *id, const void *data, u8 len)
{
	atomic_inc(&rejects);
	return id->provider_data == &qp ? answer : -EBADMSG;
}

static int stub_listen(struct iw_cm_id *id, int backlog)
{
	atomic_add(backlog, &listens);
	return answer;
}

static int stub_unlisten(struct iw_cm_id *id)
{
	atomic_inc(&unlistens);
	return 0;
}

static int modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata)
{
	qp_state = attr->qp_state;
	return 0;
}

static int query_device(struct ib_device *ib, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->gid_tbl_len = 1;
	return 0;
}

static int query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	return 0;
}

static int get_port_immutable(struct ib_device *ib, u32 port,
			      struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.iw_accept = stub_accept,
	.iw_add_ref = add_ref,
	.iw_connect = stub_connect,
	.iw_create_listen = stub_listen,
	.iw_destroy_listen = stub_unlisten,
	.iw_get_qp = get_qp,
	.iw_reject = stub_reject,
	.iw_rem_ref = rem_ref,
	.get_port_immutable = get_port_immutable,
	.modify_qp = modify_qp,
	.query_device = query_device,
	.query_gid = query_gid,
	.query_port = query_port,
};

/* The consumer */

static DEFINE_MUTEX(lock);
static unsigned int told;
static struct iw_cm_event last;
static u8 last_data[4];
static struct iw_cm_id *child;
/* The IDs of the first requests, by the number of events before them. */
static struct iw_cm_id *children[3];
/* What the handler answers, once. */
static int refuse;
/* The handler refuses all requests. */
static bool refuse_requests;
/* The handler accepts a request before it answers. */
static bool accept_in_handler;
/* The handler waits. */
static bool hold;
static DECLARE_COMPLETION(held);
static DECLARE_COMPLETION(go);

static struct iw_cm_conn_param param = { .qpn = QPN };
static struct iw_cm_conn_param no_qp = { .qpn = QPN + 1 };

static int handler(struct iw_cm_id *id, struct iw_cm_event *event)
{
	int result;

	mutex_lock(&lock);
	last = *event;
	if (event->private_data_len)
		memcpy(last_data, event->private_data, min_t(size_t, 4, event->private_data_len));
	result = refuse;
	refuse = 0;
	if (event->event == IW_CM_EVENT_CONNECT_REQUEST) {
		child = id;
		if (told < ARRAY_SIZE(children))
			children[told] = id;
		if (refuse_requests)
			result = -EACCES;
	}
	told++;
	mutex_unlock(&lock);
	if (accept_in_handler)
		iw_cm_accept(id, &param);
	if (hold) {
		complete(&held);
		wait_for_completion(&go);
	}
	return result;
}

static bool told_within(unsigned int count)
{
	int i;

	for (i = 0; i < SECONDS * 1000 && READ_ONCE(told) < count; i++)
		usleep_range(1000, 1100);
	return READ_ONCE(told) == count;
}

static int settled(struct iw_cm_id *id, struct iw_cm_event *event)
{
	complete(&held);
	return 0;
}

/* All events that were sent have been handled: the queue is ordered. */
static void settle(void)
{
	int i;

	for (i = 0; i < 10; i++) {
		struct iw_cm_id *id = iw_create_cm_id(device, settled, NULL);

		if (IS_ERR(id))
			return;
		if (!iw_cm_connect(id, &param)) {
			send(id, IW_CM_EVENT_CONNECT_REPLY, -ECONNREFUSED, NULL, 0);
			wait_for_completion(&held);
		}
		iw_destroy_cm_id(id);
	}
}

/* Cases */

static bool bad;

#define OK(condition) do { \
	if (!(condition)) { \
		pr_info("# line %d: %s (told %u, references %d)\n", __LINE__, \
			#condition, told, atomic_read(&qp_refs)); \
		good = false; \
	} \
} while (0)

static void result(const char *name, bool good)
{
	if (good)
		pr_info("ok %s\n", name);
	else
		pr_info("not ok %s: see above\n", name);
	if (!good)
		bad = true;
}

static struct iw_cm_id *new_id(void)
{
	struct iw_cm_id *id = iw_create_cm_id(device, handler, NULL);

	told = 0;
	answer = 0;
	within = 0;
	refuse = 0;
	child = NULL;
	accept_in_handler = false;
	return IS_ERR(id) ? NULL : id;
}

static struct iw_cm_id *connected(void)
{
	struct iw_cm_id *id = new_id();

	if (id && !iw_cm_connect(id, &param)) {
		send(id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL, 0);
		told_within(1);
	}
	return id;
}

static struct iw_cm_id *listening(int backlog)
{
	struct iw_cm_id *id = new_id();

	if (id)
		iw_cm_listen(id, backlog);
	return id;
}

static struct iw_cm_id *requested(struct iw_cm_id *listener)
{
	unsigned int before = told;

	send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0);
	return told_within(before + 1) ? child : NULL;
}

static void idle_cases(void)
{
	struct iw_cm_id *id = new_id();
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	bool good = true;
	int mask = 0;

	OK(iw_cm_disconnect(id, 0) == 0);
	OK(iw_cm_accept(id, &param) == -EINVAL);
	OK(iw_cm_reject(id, NULL, 0) == -EINVAL);
	OK(send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0) == -ENOMEM);
	OK(iw_cm_init_qp_attr(id, &attr, &mask) == 0);
	OK(mask == (IB_QP_STATE | IB_QP_ACCESS_FLAGS));
	OK(attr.qp_access_flags == (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ));
	attr.qp_state = IB_QPS_RTR;
	mask = 0;
	OK(iw_cm_init_qp_attr(id, &attr, &mask) == 0 && mask == (IB_QP_STATE | IB_QP_ACCESS_FLAGS));
	attr.qp_state = IB_QPS_RTS;
	OK(iw_cm_init_qp_attr(id, &attr, &mask) == 0 && mask == 0);
	attr.qp_state = IB_QPS_SQD;
	OK(iw_cm_init_qp_attr(id, &attr, &mask) == -EINVAL);
	iw_destroy_cm_id(id);
	result("an idle ID", good);

	good = true;
	OK(!strcmp(iwcm_reject_msg(-ECONNRESET), "reset by remote host"));
	OK(!strcmp(iwcm_reject_msg(-ECONNREFUSED), "refused by remote application"));
	OK(!strcmp(iwcm_reject_msg(-ETIMEDOUT), "setup timeout"));
	OK(!strcmp(iwcm_reject_msg(ETIMEDOUT), "unrecognized reason"));
	OK(!strcmp(iwcm_reject_msg(0), "unrecognized reason"));
	OK(!strcmp(iwcm_reject_msg(INT_MIN), "unrecognized reason"));
	OK(!strcmp(iwcm_reject_msg(-EPERM), "unrecognized reason"));
	result("texts of rejections", good);
}

static void active_cases(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS };
	struct iw_cm_id *id = new_id();
	bool good = true;
	u8 data[4] = { 1, 2, 3, 4 };
	int mask;

	OK(iw_cm_connect(id, &no_qp) == -EINVAL);
	iw_destroy_cm_id(id);
	id = new_id();
	answer = -EHOSTUNREACH;
	OK(iw_cm_connect(id, &param) == -EHOSTUNREACH);
	OK(atomic_read(&qp_refs) == 0);
	OK(iw_cm_disconnect(id, 0) == 0);
	iw_destroy_cm_id(id);
	result("connections that fail at once", good);

	good = true;
	id = new_id();
	((struct sockaddr_in *)&id->local_addr)->sin_family = AF_INET;
	((struct sockaddr_in *)&id->local_addr)->sin_port = htons(1);
	((struct sockaddr_in *)&id->remote_addr)->sin_family = AF_INET;
	((struct sockaddr_in *)&id->remote_addr)->sin_port = htons(2);
	OK(iw_cm_connect(id, &param) == 0);
	OK(atomic_read(&qp_refs) == 1);
	OK(!memcmp(&id->m_local_addr, &id->local_addr, sizeof(id->local_addr)));
	OK(!memcmp(&id->m_remote_addr, &id->remote_addr, sizeof(id->local_addr)));
	OK(iw_cm_accept(id, &param) == -EINVAL);
	/* In the C module this call ends the wait of the connection. */
	if (wrong)
		OK(iw_cm_reject(id, NULL, 0) == -EINVAL);
	OK(send(id, IW_CM_EVENT_CONNECT_REPLY, 0, data, sizeof(data)) == 0);
	memset(data, 0, sizeof(data));
	OK(told_within(1));
	OK(last.event == IW_CM_EVENT_CONNECT_REPLY && last.status == 0);
	OK(last.private_data_len == 4 && last_data[3] == 4);
	OK(last.ord == 3 && last.ird == 5 && last.provider_data == &qp);
	OK(((struct sockaddr_in *)&last.local_addr)->sin_port == htons(1));
	OK(((struct sockaddr_in *)&last.remote_addr)->sin_port == htons(2));
	OK(((struct sockaddr_in *)&id->m_local_addr)->sin_port == htons(11));
	OK(((struct sockaddr_in *)&id->m_remote_addr)->sin_port == htons(12));
	OK(iw_cm_init_qp_attr(id, &attr, &mask) == 0);
	result("a connection is established", good);

	good = true;
	OK(iw_cm_disconnect(id, 0) == 0 && qp_state == IB_QPS_SQD);
	qp_state = IB_QPS_RESET;
	OK(iw_cm_disconnect(id, 1) == 0 && qp_state == IB_QPS_RESET);
	OK(iw_cm_init_qp_attr(id, &attr, &mask) == -EINVAL);
	OK(atomic_read(&qp_refs) == 1);
	OK(send(id, IW_CM_EVENT_DISCONNECT, 0, NULL, 0) == 0);
	OK(send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0) == 0);
	OK(told_within(2));
	OK(last.event == IW_CM_EVENT_CLOSE);
	OK(atomic_read(&qp_refs) == 0);
	OK(iw_cm_disconnect(id, 1) == 0 && qp_state == IB_QPS_RESET);
	iw_destroy_cm_id(id);
	result("a connection is closed", good);

	good = true;
	id = connected();
	OK(iw_cm_disconnect(id, 1) == 0 && qp_state == IB_QPS_ERR);
	iw_destroy_cm_id(id);
	id = connected();
	OK(send(id, IW_CM_EVENT_DISCONNECT, 0, NULL, 0) == 0);
	settle();
	qp_state = IB_QPS_RESET;
	OK(told == 1 && iw_cm_disconnect(id, 1) == 0 && qp_state == IB_QPS_RESET);
	iw_destroy_cm_id(id);
	OK(qp_state == IB_QPS_RESET);
	id = connected();
	iw_destroy_cm_id(id);
	OK(qp_state == IB_QPS_ERR && atomic_read(&qp_refs) == 0);
	result("abrupt ends", good);

	good = true;
	id = new_id();
	within = IW_CM_EVENT_CONNECT_REPLY;
	OK(iw_cm_connect(id, &param) == 0 && within_result == 0);
	OK(told_within(1));
	within = 0;
	refuse = -EPROTO;
	id->add_ref(id);
	send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0);
	OK(told_within(2));
	settle();
	/* Destroyed: the provider still has its reference, and nobody is told. */
	OK(send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0) == 0);
	settle();
	OK(told == 2);
	id->rem_ref(id);
	OK(atomic_read(&qp_refs) == 0);
	result("the consumer refuses an event", good);
}

static void passive_cases(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	struct iw_cm_id *listener = new_id(), *id;
	int before, mask;
	bool good = true;

	answer = -EADDRINUSE;
	OK(iw_cm_listen(listener, 3) == -EADDRINUSE);
	iw_destroy_cm_id(listener);
	OK(atomic_read(&unlistens) == 0);
	atomic_set(&listens, 0);
	listener = listening(0);
	OK(atomic_read(&listens) == 256);
	iw_destroy_cm_id(listener);
	OK(atomic_read(&unlistens) == 1);
	listener = listening(3);
	OK(iw_cm_disconnect(listener, 0) == -EINVAL);
	OK(iw_cm_accept(listener, &param) == -EINVAL);
	OK(iw_cm_reject(listener, NULL, 0) == -EINVAL);
	OK(iw_cm_init_qp_attr(listener, &attr, &mask) == -EINVAL);
	result("a listener", good);

	good = true;
	id = requested(listener);
	OK(id && id != listener && id->provider_data == &qp && id->device == device);
	OK(((struct sockaddr_in *)&id->m_remote_addr)->sin_port == htons(12));
	OK(((struct sockaddr_in *)&id->remote_addr)->sin_port == htons(12));
	OK(iw_cm_init_qp_attr(id, &attr, &mask) == 0);
	OK(iw_cm_disconnect(id, 0) == 0);
	OK(iw_cm_accept(id, &no_qp) == -EINVAL);
	OK(iw_cm_accept(id, &param) == 0 && atomic_read(&qp_refs) == 1);
	OK(send(id, IW_CM_EVENT_ESTABLISHED, 0, NULL, 0) == 0);
	OK(told_within(2) && last.event == IW_CM_EVENT_ESTABLISHED);
	OK(iw_cm_accept(id, &param) == -EINVAL);
	OK(iw_cm_reject(id, NULL, 0) == -EINVAL);
	OK(iw_cm_disconnect(id, 0) == 0 && qp_state == IB_QPS_SQD);
	OK(send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0) == 0);
	OK(told_within(3) && atomic_read(&qp_refs) == 0);
	iw_destroy_cm_id(id);
	result("a request is accepted", good);

	good = true;
	before = atomic_read(&rejects);
	id = requested(listener);
	OK(id && iw_cm_reject(id, NULL, 0) == 0);
	OK(iw_cm_reject(id, NULL, 0) == -EINVAL);
	iw_destroy_cm_id(id);
	OK(atomic_read(&rejects) == before + 1);
	id = requested(listener);
	iw_destroy_cm_id(id);
	OK(atomic_read(&rejects) == before + 2);
	refuse = -EACCES;
	OK(requested(listener));
	settle();
	OK(atomic_read(&rejects) == before + 3);
	result("requests are rejected", good);

	good = true;
	id = requested(listener);
	answer = -ENOTCONN;
	OK(id && iw_cm_accept(id, &param) == -ENOTCONN);
	OK(atomic_read(&qp_refs) == 0);
	before = atomic_read(&rejects);
	iw_destroy_cm_id(id);
	OK(atomic_read(&rejects) == before);
	result("the provider does not accept", good);

	good = true;
	answer = 0;
	accept_in_handler = true;
	within = IW_CM_EVENT_ESTABLISHED;
	before = told;
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == 0);
	OK(told_within(before + 2) && last.event == IW_CM_EVENT_ESTABLISHED);
	accept_in_handler = false;
	within = 0;
	if (child)
		iw_destroy_cm_id(child);
	OK(atomic_read(&qp_refs) == 0);
	result("a handler accepts", good);
	iw_destroy_cm_id(listener);
}

static void backlog_cases(void)
{
	struct iw_cm_id *listener = listening(2);
	int before = atomic_read(&rejects);
	bool good = true;

	reinit_completion(&held);
	hold = true;
	refuse = -EACCES;
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == 0);
	wait_for_completion(&held);
	/* One is with the handler; two may wait. */
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == 0);
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == 0);
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == -ENOMEM);
	hold = false;
	complete(&go);
	OK(told_within(3));
	iw_destroy_cm_id(children[1]);
	iw_destroy_cm_id(children[2]);
	OK(atomic_read(&rejects) == before + 3);
	OK(requested(listener));
	iw_destroy_cm_id(child);
	iw_destroy_cm_id(listener);
	result("the backlog is full", good);
}

struct destroyer {
	struct iw_cm_id *id;
	struct completion done;
};

static int destroy_thread(void *arg)
{
	struct destroyer *this = arg;

	iw_destroy_cm_id(this->id);
	complete(&this->done);
	return 0;
}

/* What the C module does not survive: events that its states do not expect. */
static void wrong_cases(void)
{
	struct iw_cm_id *listener, *id;
	struct destroyer destroyer;
	int before, type;
	bool good = true;

	/* Neither idle nor connected; a type that there is not. */
	id = new_id();
	answer = -EIO;
	OK(iw_cm_connect(id, &param) == -EIO);
	answer = 0;
	for (type = IW_CM_EVENT_CONNECT_REPLY; type <= IW_CM_EVENT_CLOSE; type++)
		OK(send(id, type, 0, NULL, 0) == 0);
	OK(send(id, 0, 0, NULL, 0) == -EINVAL && send(id, 99, 0, NULL, 0) == -EINVAL);
	OK(send(id, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 7) == -EINVAL);
	settle();
	OK(told == 0);
	OK(iw_cm_connect(id, &param) == 0);
	OK(iw_cm_connect(id, &param) == -EINVAL && iw_cm_listen(id, 1) == -EINVAL);
	send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0);
	OK(told_within(1) && last.event == IW_CM_EVENT_CLOSE && atomic_read(&qp_refs) == 0);
	iw_destroy_cm_id(id);
	id = new_id();
	OK(iw_cm_connect(id, &param) == 0);
	send(id, IW_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	send(id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL, 0);
	OK(told_within(1) && last.event == IW_CM_EVENT_CONNECT_REPLY);
	send(id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL, 0);
	send(id, IW_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	settle();
	OK(told == 1 && atomic_read(&qp_refs) == 1);
	send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0);
	send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0);
	settle();
	OK(told == 2 && atomic_read(&qp_refs) == 0);
	iw_destroy_cm_id(id);
	result("events in wrong states, active", good);

	good = true;
	listener = listening(8);
	OK(iw_cm_listen(listener, 1) == -EINVAL && iw_cm_connect(listener, &param) == -EINVAL);
	for (type = IW_CM_EVENT_CONNECT_REPLY; type <= IW_CM_EVENT_CLOSE; type++)
		OK(send(listener, type, 0, NULL, 0) == 0);
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, -EIO, NULL, 0) == 0);
	settle();
	OK(told == 0);
	id = requested(listener);
	send(id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL, 0);
	send(id, IW_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0);
	settle();
	OK(told == 1);
	before = atomic_read(&rejects);
	send(id, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0);
	settle();
	OK(told == 1 && atomic_read(&rejects) == before + 1);
	OK(iw_cm_accept(id, &param) == 0);
	/* A driver is never told to reject what it was told to accept. */
	before = atomic_read(&rejects);
	OK(iw_cm_reject(id, NULL, 0) == -EINVAL && atomic_read(&rejects) == before);
	/* The peer ends what was never established. */
	send(id, IW_CM_EVENT_CLOSE, 0, NULL, 0);
	OK(told_within(2) && last.event == IW_CM_EVENT_CLOSE && atomic_read(&qp_refs) == 0);
	iw_destroy_cm_id(id);
	OK(atomic_read(&rejects) == before);
	iw_destroy_cm_id(listener);
	result("events in wrong states, passive", good);

	/* Requests that wait when their listener ends. */
	good = true;
	listener = listening(4);
	before = atomic_read(&rejects);
	reinit_completion(&held);
	hold = true;
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == 0);
	wait_for_completion(&held);
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == 0);
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == 0);
	id = child;
	destroyer.id = listener;
	init_completion(&destroyer.done);
	listener->add_ref(listener);
	kthread_run(destroy_thread, &destroyer, "iwstub");
	OK(!wait_for_completion_timeout(&destroyer.done, HZ / 5));
	OK(atomic_read(&rejects) == before + 2);
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == -ENOMEM);
	hold = false;
	complete(&go);
	OK(wait_for_completion_timeout(&destroyer.done, SECONDS * HZ));
	listener->rem_ref(listener);
	OK(told == 1);
	iw_destroy_cm_id(id);
	result("a listener ends while requests wait", good);

	/* Accepts, then refuses: the C module waits for itself. */
	good = true;
	listener = listening(4);
	before = atomic_read(&rejects);
	accept_in_handler = true;
	within = IW_CM_EVENT_ESTABLISHED;
	refuse = -EACCES;
	OK(send(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL, 0) == 0);
	OK(told_within(1));
	accept_in_handler = false;
	within = 0;
	settle();
	OK(told == 1 && atomic_read(&rejects) == before && atomic_read(&qp_refs) == 0);
	OK(qp_state == IB_QPS_ERR);
	iw_destroy_cm_id(listener);
	result("a handler accepts, and refuses", good);

	good = true;
	id = new_id();
	answer = -EIO;
	within = IW_CM_EVENT_CONNECT_REPLY;
	OK(iw_cm_connect(id, &param) == -EIO && within_result == 0);
	answer = 0;
	within = 0;
	settle();
	OK(atomic_read(&qp_refs) == 0);
	iw_destroy_cm_id(id);
	result("a provider replies, and fails", good);
}

/* Destruction against events. */

struct racer {
	struct iw_cm_id *id;
	struct completion go, done;
	bool stop;
};

static int race_thread(void *arg)
{
	struct racer *this = arg;

	for (;;) {
		int i;

		wait_for_completion(&this->go);
		if (this->stop)
			break;
		for (i = 0; i < 6; i++) {
			u32 type = IW_CM_EVENT_DISCONNECT;

			if (wrong)
				type = get_random_u32_inclusive(IW_CM_EVENT_CONNECT_REQUEST,
								IW_CM_EVENT_CLOSE);
			else if (i == 5)
				type = IW_CM_EVENT_CLOSE;
			send(this->id, type, 0, "ab", 2);
			if (get_random_u32_below(4) == 0)
				udelay(get_random_u32_below(20));
		}
		this->id->rem_ref(this->id);
		complete(&this->done);
	}
	complete(&this->done);
	return 0;
}

static void race(void)
{
	struct racer racer = {};
	struct task_struct *task;
	bool good = true;
	unsigned int i;

	init_completion(&racer.go);
	init_completion(&racer.done);
	task = kthread_run(race_thread, &racer, "iwstub");
	if (IS_ERR(task)) {
		result("destruction against events", false);
		return;
	}
	refuse_requests = true;
	for (i = 0; i < races; i++) {
		struct iw_cm_id *id = wrong && i % 2 ? listening(3) : connected();

		if (!id)
			break;
		id->add_ref(id);
		racer.id = id;
		complete(&racer.go);
		if (get_random_u32_below(2))
			udelay(get_random_u32_below(60));
		iw_destroy_cm_id(id);
		wait_for_completion(&racer.done);
		cond_resched();
	}
	racer.stop = true;
	complete(&racer.go);
	wait_for_completion(&racer.done);
	settle();
	refuse_requests = false;
	OK(i == races);
	OK(atomic_read(&qp_refs) == 0);
	result("destruction against events", good);
}

static int __init iwstub_init(void)
{
	int ret;

	device = _ib_alloc_device(sizeof(*device), &init_net);
	if (!device)
		return -ENOMEM;
	device->node_type = RDMA_NODE_RNIC;
	device->phys_port_cnt = 1;
	device->num_comp_vectors = 1;
	strscpy(device->iw_ifname, "iwstub");
	ib_set_device_ops(device, &ops);
	/* An iWARP port has a network device. */
	ret = ib_device_set_netdev(device, init_net.loopback_dev, 1);
	if (ret) {
		ib_dealloc_device(device);
		return ret;
	}
	ret = ib_register_device(device, "iwstub%d", NULL);
	if (ret) {
		ib_dealloc_device(device);
		return ret;
	}
	qp.device = device;
	qp.real_qp = &qp;
	qp.qp_type = IB_QPT_RC;
	qp.qp_num = QPN;
	qp.port = 1;

	idle_cases();
	active_cases();
	passive_cases();
	backlog_cases();
	if (wrong)
		wrong_cases();
	race();
	pr_info("end %d\n", bad);
	return 0;
}

static void __exit iwstub_exit(void)
{
	ib_unregister_device(device);
	ib_dealloc_device(device);
}

module_init(iwstub_init);
module_exit(iwstub_exit);
MODULE_DESCRIPTION("Test of iw_cm: a provider and a consumer of no hardware");
MODULE_LICENSE("GPL");
