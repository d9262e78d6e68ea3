package gateway_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/store"
)

const exampleConfig = `
public_url: https://gw.example
store: {driver: memory}
token: {secret: "32 bytes or more that only the gateway has"}
basic: {users: [{username: ada, password_hash: "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"}]}
upstreams: {app: {url: "%s"}}
routes: [{match: /, upstream: app, auth: [basic]}]
`

// A Gateway is an http.Handler. It refuses a request without credentials, and tells
// the application who made the others.
func Example() {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello, %s!", r.Header.Get("X-Auth-User"))
	}))
	defer app.Close()
	cfg, err := config.Parse("authgate.yaml", fmt.Appendf(nil, exampleConfig, app.URL))
	if err != nil {
		panic(err)
	}
	g, err := gateway.New(gateway.Options{
		Config: cfg, Store: store.NewMemory(nil), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		panic(err)
	}
	defer g.Close()

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "gw.example"
	for range 2 {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
		r.SetBasicAuth("ada", "s3rvice")
	}
	// Output:
	// 401 {"title":"Unauthorized","status":401,"detail":"Not signed in."}
	//
	// 200 Hello, ada!
}
