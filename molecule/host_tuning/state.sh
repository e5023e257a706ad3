#!/bin/sh
# Everything that host_tuning may change on a host: values of the kernel as it means them, and files.
for f in /proc/sys/vm/* /proc/sys/kernel/numa_balancing /proc/sys/net/core/somaxconn \
    /proc/sys/net/ipv4/ip_local_reserved_ports /proc/sys/net/ipv4/ip_nonlocal_bind \
    /sys/kernel/mm/transparent_hugepage/* /sys/devices/system/node/node*/hugepages/*/nr_hugepages; do
    [ -f "$f" ] && echo "$f $(sed 's/.*\[\(.*\)\].*/\1/' "$f" 2>&1)"
done
stat -f -c '/dev/shm %b blocks of %S' /dev/shm
find /etc/sysctl.d /etc/tmpfiles.d /etc/systemd/system /var/lib/vllm-fleet/state -type f -exec sha256sum {} + 2>/dev/null | sort
