// SPDX-License-Identifier: GPL-2.0
/* Helpers for consumers of rdma_cm: what its headers do inline. */
#include <linux/string.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_sa.h>
#include <rdma/opa_addr.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_cm_ib.h>
#include "helpers.h"

void rdma_helper_cm_route(struct rdma_cm_id *id, struct rdma_helper_cm_route *to)
{
	struct rdma_route *route = &id->route;
	struct ib_device *device = id->device;

	/* The rest of a sockaddr_storage is not part of any address. */
	memcpy(to->src, &route->addr.src_addr, sizeof(to->src));
	memcpy(to->dst, &route->addr.dst_addr, sizeof(to->dst));
	to->paths = route->path_rec ? route->num_pri_alt_paths : 0;
	if (!device)
		return;
	to->has_device = true;
	to->node_guid = (__force u64)device->node_guid;
	to->index = device->index;
	to->port = id->port_num;
	to->pkey = (__force u16)cpu_to_be16(ib_addr_get_pkey(&route->addr.dev_addr));
	if (rdma_cap_ib_sa(device, id->port_num)) {
		to->link = RDMA_HELPER_CM_IB;
	} else if (rdma_protocol_roce(device, id->port_num)) {
		to->link = RDMA_HELPER_CM_ROCE;
		rdma_ip2gid((struct sockaddr *)&route->addr.dst_addr, (union ib_gid *)to->dgid);
		rdma_ip2gid((struct sockaddr *)&route->addr.src_addr, (union ib_gid *)to->sgid);
		return;
	} else if (rdma_protocol_iwarp(device, id->port_num)) {
		to->link = RDMA_HELPER_CM_IWARP;
	}
	rdma_addr_get_dgid(&route->addr.dev_addr, (union ib_gid *)to->dgid);
	rdma_addr_get_sgid(&route->addr.dev_addr, (union ib_gid *)to->sgid);
}

void rdma_helper_cm_pack_path(struct sa_path_rec *path, u8 *to)
{
	struct sa_path_rec ib;

	if (path->rec_type == SA_PATH_REC_TYPE_OPA) {
		sa_convert_path_opa_to_ib(&ib, path);
		path = &ib;
	}
	ib_sa_pack_path(path, to);
}

int rdma_helper_cm_set_path(struct rdma_cm_id *id, u8 *from)
{
	struct sa_path_rec path = { .rec_type = SA_PATH_REC_TYPE_IB };
	struct sa_path_rec opa;

	ib_sa_unpack_path(from, &path);
	if (!rdma_cap_opa_ah(id->device, id->port_num))
		return rdma_set_ib_path(id, &path);
	sa_convert_path_ib_to_opa(&opa, &path);
	return rdma_set_ib_path(id, &opa);
}

u32 rdma_helper_cm_services(struct rdma_cm_id *id, u8 *to, size_t room)
{
	const struct sa_service_rec *records = READ_ONCE(id->route.service_recs);
	u32 count = READ_ONCE(id->route.num_service_recs);

	if (!records)
		return 0;
	memcpy(to, records, min(room, count * sizeof(*records)));
	return count;
}
