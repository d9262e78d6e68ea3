package provider

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Listen opens a TCP address for a provider, such as 127.0.0.1:9400. Anything
// but localhost or an IP address on loopback is an error.
func Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("provider: listening: %w", err)
	}
	if !onLoopback(host) {
		return nil, notLoopback(addr)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	// What localhost means is up to the machine.
	if !isLoopback(listener.Addr()) {
		_ = listener.Close() // nothing was accepted from it
		return nil, notLoopback(listener.Addr().String())
	}
	return listener, nil
}

func notLoopback(addr string) error {
	return fmt.Errorf("provider: %q is not a loopback address; this provider is for demonstrations alone and must not be reached from elsewhere: use one like 127.0.0.1:9400", addr)
}

// onLoopback reports whether a host, without its port, is this machine by its
// name.
func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// cameByLoopback reports whether a request reached the server at a loopback
// address; one of unknown origin did not.
func cameByLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(addr)
}
