package server

import (
	"errors"
	"syscall"
)

// listenHint returns advice about an address at which the system does not let the gateway
// listen.
func listenHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; another program listens there: stop it, or choose another port"
	case errors.Is(err, syscall.EACCES):
		return "; ports below 1024 need the right CAP_NET_BIND_SERVICE, which the systemd unit gives: " +
			"use the unit, `setcap cap_net_bind_service=+ep` on the program, or a port from 1024 on"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; this machine does not have the address"
	}
	return ""
}
