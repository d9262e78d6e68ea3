package certs

import (
	"log/slog"

	"authgate/gateway/certs/acme/dnschallenge"
	"authgate/gateway/config/listening"
)

// dnsProvider returns the provider for the zones of the gateway's names, or nil if there
// is no tls.dns.
func dnsProvider(d *listening.DNS, logger *slog.Logger) dnschallenge.Provider {
	if d == nil {
		return nil
	}
	var provider dnschallenge.Provider
	resolvers := dnschallenge.NewResolvers(d.Resolvers)
	switch d.Provider {
	case listening.DNSRFC2136:
		provider = dnschallenge.RFC2136{
			Server: d.Server, KeyName: d.KeyName, Key: d.Key.Reveal(), Algorithm: d.KeyAlgorithm, Resolvers: resolvers,
		}
	case listening.DNSCloudflare:
		provider = dnschallenge.Cloudflare{
			API: dnschallenge.CloudflareAPI, Token: d.APIToken.Reveal(), Resolvers: resolvers,
		}
	case listening.DNSRoute53:
		provider = dnschallenge.Route53(d.AccessKeyID, d.SecretAccessKey.Reveal(), d.Region, d.HostedZoneID)
	case listening.DNSACMEDNS:
		provider = dnschallenge.ACMEDNS(d.URL, d.Storage)
	case listening.DNSHTTPReq:
		provider = dnschallenge.HTTPReq(d.URL, d.Username, d.Password.Reveal())
	case listening.DNSExec:
		provider = dnschallenge.Exec{Command: d.Command}
	default:
		return nil
	}
	dnschallenge.UseLego(d.Resolvers, logger)
	return dnschallenge.Redacted(provider, d.Secrets())
}
