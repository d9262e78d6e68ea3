package conn_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"authgate/gateway/conn"
)

// A load balancer at 127.0.0.1 names its client before it passes on the request.
func ExampleNewProxyProtocol() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	set := conn.NewSet(conn.Options{Limit: 1000, Logger: slog.Default()})
	balancers := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	server := &http.Server{
		ConnState: set.State,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			fmt.Println("a request from", r.RemoteAddr)
		}),
	}
	defer server.Close()
	go server.Serve(conn.NewProxyProtocol(set.Listener(listener), balancers, 10*time.Second, slog.Default()))

	balancer, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		panic(err)
	}
	defer balancer.Close()
	io.WriteString(balancer, "PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\n")
	io.WriteString(balancer, "GET / HTTP/1.1\r\nHost: app.example\r\nConnection: close\r\n\r\n")
	io.Copy(io.Discard, balancer)
	// Output: a request from 203.0.113.9:4711
}
