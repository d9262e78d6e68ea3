package provider

import (
	"fmt"
	"net"
	"net/http"

	"authgate/policy"
)

// Listen listens on a TCP address for a provider, such as 127.0.0.1:9400. It
// returns an error if the host is not localhost or a loopback address.
func Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("provider: listening: %w", err)
	}
	if !policy.Loopback(host) {
		return nil, notLoopback(addr)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	// The machine can resolve localhost to any address.
	if !isLoopback(listener.Addr()) {
		_ = listener.Close() // no connection was accepted
		return nil, notLoopback(listener.Addr().String())
	}
	return listener, nil
}

func notLoopback(addr string) error {
	return fmt.Errorf("provider: %q is not a loopback address; this provider is only for demonstrations and must not "+
		"be reachable from other machines: use an address like 127.0.0.1:9400", addr)
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// cameByLoopback reports whether a request arrived at a loopback address. It
// returns false if the address is unknown.
func cameByLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(addr)
}
