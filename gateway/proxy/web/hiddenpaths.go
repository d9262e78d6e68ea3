package web

import (
	"net/url"
	"sync"

	"authgate/gateway/config"
	"authgate/policy"
)

// hiddenPaths are the paths that the gateway answers in the place of applications; see
// config.Config.HiddenPaths. The zero value has none.
type hiddenPaths struct {
	paths map[string]bool
	told  sync.Map // of paths
}

func (h *hiddenPaths) set(cfg *config.Config) {
	for _, path := range cfg.HiddenPaths() {
		if h.paths == nil {
			h.paths = map[string]bool{}
		}
		h.paths[path] = true
	}
}

// NoteRedirect looks at the Location of an application's answer. One that leads a signed-in user
// to a path that the gateway hides is the sign that an application seems broken: its own page is
// never seen. The log says so, once for each path.
func (ex *Exchange) NoteRedirect(upstream string, location []string) {
	hidden := &ex.site.hidden
	if hidden.paths == nil || ex.Identity == nil || len(location) != 1 {
		return
	}
	to, err := ex.Request.URL.Parse(location[0])
	if err != nil || !hidden.paths[to.Path] || to.Host != "" && !sameHost(to, ex.Peer.Host) {
		return
	}
	if _, told := hidden.told.LoadOrStore(to.Path, true); !told {
		ex.site.Service.Logger.Warn("an application leads signed-in users to a path that the gateway answers "+
			"itself; if it is a page of the application, set endpoints.prefix to /.authgate/",
			"upstream", upstream, "path", to.Path)
	}
}

// sameHost reports whether a URL is at a host, which is canonical.
func sameHost(to *url.URL, host string) bool {
	canonical, err := policy.CanonicalHost(to.Host)
	return err == nil && canonical == host
}
