package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"authgate/docs"
	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// Schema returns a JSON Schema (draft 2020-12) of the configuration file, for
// editors. It ends with a line break. A file that does not fit it is not valid; one
// that fits can still have mistakes.
func Schema() []byte {
	meanings := docs.Meanings()
	schema := newReader("config.yaml", os.LookupEnv).Schema(strictyaml.SchemaOptions{
		Words: words, Meaning: func(key string) string { return meanings[key] },
	}, defaults())
	schema["title"] = "The configuration of authgate"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(schema); err != nil {
		panic(fmt.Sprintf("config: the schema is no JSON: %v", err)) // it has only maps, lists and texts
	}
	return b.Bytes()
}

// words returns the only values that a key takes, or nil. NAME in a key is a name of
// the user's choice, and [] an element of a list.
func words(key string) []string {
	switch key {
	case "tls.mode":
		return []string{TLSInternal, TLSFiles, TLSACME, TLSOff}
	case "store.driver":
		return []string{StoreSQLite, StoreMemory, StoreRedis}
	case "session.same_site":
		return []string{"lax", "strict", "none"}
	case "token.algorithm":
		return []string{AlgorithmHS256, AlgorithmRS256}
	case "token.delivery":
		return []string{DeliveryBody, DeliveryCookie}
	case "token.bind_refresh[]":
		return []string{"user_agent", "ip"}
	case "token.trusted_issuers[].algorithms[]":
		return asymmetricAlgorithms
	case "providers[].logout":
		return []string{LogoutAuto, LogoutForm, LogoutRevoke, LogoutRedirect}
	case "providers[].token_endpoint_auth_method":
		return []string{AuthMethodBasic, AuthMethodPost}
	case "upstreams.NAME.balance":
		return []string{BalanceRoundRobin, BalanceLeastRequests, BalanceClient}
	case "log.level":
		return []string{"debug", "info", "warn", "error"}
	case "log.format":
		return []string{"json", "text"}
	}
	return routeWords(key)
}

// routeWords is words for the keys of routes and policies.
func routeWords(key string) []string {
	mechanisms := []string{string(policy.Basic), string(policy.Session), string(policy.Bearer), string(policy.OIDC)}
	switch key {
	case "routes[].auth[]":
		return append(mechanisms, string(policy.None))
	case "policies.NAME.mechanisms[]":
		return mechanisms
	case "routes[].unauthenticated":
		return []string{UnauthenticatedAuto, UnauthenticatedChallenge, UnauthenticatedRedirect}
	case "routes[].authorization":
		return []string{AuthorizationGateway, AuthorizationApplication}
	case "routes[].cross_origin":
		return []string{CrossOriginDeny, CrossOriginAllow}
	case "routes[].service_workers":
		return []string{ServiceWorkersRefuse, ServiceWorkersAllow}
	case "routes[].encoded_slashes":
		return []string{EncodedSlashesReject, EncodedSlashesKeep}
	case "routes[].rate.by":
		return []string{RateByClient, RateByUser}
	}
	return nil
}
