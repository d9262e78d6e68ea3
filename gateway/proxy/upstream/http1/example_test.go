package http1_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"authgate/gateway/proxy/upstream/http1"
)

// Two requests use one connection, because the first response ends beyond doubt.
func ExampleClient() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "the answer to ", r.URL.Path)
	}))
	defer upstream.Close()

	connections := 0
	client := http1.New(http1.Options{
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			connections++
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		Timeout: 30 * time.Second,
		MaxIdle: 100,
	})
	defer client.CloseIdleConnections()

	for _, path := range []string{"/a", "/b"} {
		request, err := http.NewRequest("GET", upstream.URL+path, nil)
		if err != nil {
			panic(err)
		}
		response, err := client.RoundTrip(request)
		if err != nil {
			panic(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Println(response.StatusCode, string(body), err)
	}
	fmt.Println("connections:", connections)
	// Output:
	// 200 the answer to /a <nil>
	// 200 the answer to /b <nil>
	// connections: 1
}
