package endpoint

import (
	"net/http"
	"time"

	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/cors"
)

// Shared returns a row that the scripts of any origin may ask, because it reads no cookie, and
// the one for the preflights of browsers.
func Shared(row Row) []Row {
	policy := cors.New(cors.Options{
		Origins: []string{cors.Any}, Headers: []string{"Authorization", "Content-Type", "MCP-Protocol-Version"},
		MaxAge: time.Hour,
	})
	row.AnyOrigin, row.NoCookies, row.CORS = true, true, policy
	preflight := row
	preflight.Method = http.MethodOptions
	preflight.Do = func(ex *web.Exchange) error { return ex.Preflight(policy) }
	return []Row{row, preflight}
}
