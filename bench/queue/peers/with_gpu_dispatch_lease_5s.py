# SPDX-License-Identifier: MIT
"""gpu-dispatch with a queue whose leases are short. See with_gpu_dispatch.py."""
import peer
import with_gpu_dispatch


class ShortLease(with_gpu_dispatch.GpuDispatch):
    name = "gpu_dispatch_lease_5s"
    lease = ("--lease", "5s")


if __name__ == "__main__":
    peer.measure(ShortLease)
