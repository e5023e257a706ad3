"""Real systemd hosts on one machine: systemd-nspawn over overlays of cached root file systems."""
