// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of ib_umad are defined by the kernel's own header. What that reads of an
 * open file has the header's names; it is made for the call, so no device is looked at.
 */
#include <linux/types.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_user_mad.h>
#include "../rust/helpers/helpers.h"

struct ib_umad_port {
	const struct {
		u32 index;
	} *ib_dev;
	u32 port_num;
};

struct ib_umad_file {
	struct ib_umad_port *port;
};

#define CREATE_TRACE_POINTS
#include <trace/events/ib_umad.h>

void rdma_helper_umad_trace(u32 which, u32 index, u32 port_num, void *header, void *mad)
{
	struct ib_umad_port port = { .port_num = port_num };
	struct ib_umad_file file = { .port = &port };
	typeof(*port.ib_dev) dev = { .index = index };

	port.ib_dev = &dev;
	switch (which) {
	case 0:
		trace_ib_umad_write(&file, header, mad);
		break;
	case 1:
		trace_ib_umad_read_recv(&file, header, mad);
		break;
	default:
		trace_ib_umad_read_send(&file, header, mad);
	}
}
