package peer_test

import (
	"fmt"
	"net/http/httptest"
	"net/netip"

	"authgate/gateway/peer"
)

// A client writes a forged address into X-Forwarded-For, and the proxy in front
// adds the real one.
func ExampleProxies_Read() {
	proxies := peer.Proxies{netip.MustParsePrefix("10.0.0.0/8")}

	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "127.0.0.1, 203.0.113.9")
	r.Header.Set("X-Forwarded-Proto", "https")

	r.RemoteAddr = "10.0.0.1:4711" // a trusted proxy
	p := proxies.Read(r)
	fmt.Println(p.Address, p.Proto)

	r.RemoteAddr = "198.51.100.7:4711" // a client that claims to be one
	p = proxies.Read(r)
	fmt.Println(p.Address, p.Proto)
	// Output:
	// 203.0.113.9 https
	// 198.51.100.7 http
}
