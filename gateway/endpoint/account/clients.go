package account

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"authgate/gateway/endpoint"
	"authgate/gateway/login/grants"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// applications is /account/clients and below: the applications that the user has let in.
type applications struct {
	page     *page
	consents *grants.Consents
}

// clientRows returns the endpoints of the applications of a user; none if the gateway is no
// authorization server.
func clientRows(p *page) []endpoint.Row {
	if p.options.Consents == nil {
		return nil
	}
	a := &applications{page: p, consents: p.options.Consents}
	return []endpoint.Row{
		{Name: "account/clients", Method: http.MethodGet, Home: true, Do: a.list},
		{Name: "account/clients/revoke", Method: http.MethodPost, Home: true, Sessions: true, Do: a.revoke},
	}
}

// clientInfo describes an application to a user: its permissions, and since when.
type clientInfo struct {
	ID        string         `json:"client_id"`
	Name      string         `json:"name"`
	Resources []resourceInfo `json:"resources"`
	Since     string         `json:"created_at"`
}

type resourceInfo struct {
	Resource string   `json:"resource"` // empty: all of the service
	Scopes   []string `json:"scopes"`
}

// list is GET /account/clients.
func (a *applications) list(ex *web.Exchange) error {
	id, err := a.page.options.Reader(ex)
	if err != nil {
		return err
	}
	consents, err := a.consents.List(&ex.Store, id.Subject)
	if err != nil {
		return err
	}
	infos := []clientInfo{}
	for i := range consents {
		c := &consents[i]
		info := clientInfo{ID: c.Client, Name: c.Name, Resources: []resourceInfo{}, Since: timeText(c.Since)}
		for _, resource := range slices.Sorted(maps.Keys(c.Resources)) {
			info.Resources = append(info.Resources,
				resourceInfo{resource, append([]string{}, c.Resources[resource]...)})
		}
		infos = append(infos, info)
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string][]clientInfo{"clients": infos})
	return nil
}

// revoke is POST /account/clients/revoke: it ends a user's consent for an application, with all its
// tokens.
func (a *applications) revoke(ex *web.Exchange) error {
	client, err := readText(ex, "client_id")
	if err != nil {
		return err
	}
	ctx, end := ex.Store.Recording()
	defer end()
	found, err := a.consents.Withdraw(ctx, ex.Identity.Subject, client)
	if err != nil {
		return err
	}
	if !found {
		return &web.Error{
			Status: http.StatusNotFound,
			Detail: "You have no application with this client_id. It may have ended already.",
		}
	}
	ex.Audit("client_revoked", slog.String("client_id", client))
	if ex.MediaType() == web.TypeForm {
		a.page.done(ex, doneClient)
		return nil
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string]string{"message": "Ended."})
	return nil
}

// offerClients adds the applications that the user has let in.
func (p *page) offerClients(ex *web.Exchange, id *policy.Identity, view *pages.Manage) error {
	if p.options.Consents == nil {
		return nil
	}
	consents, err := p.options.Consents.List(&ex.Store, id.Subject)
	for i := range consents {
		c := &consents[i]
		view.Clients = append(view.Clients, pages.OwnClient{
			ID: c.Client, Name: c.Name, Resources: slices.Sorted(maps.Keys(c.Resources)), Since: c.Since,
		})
	}
	view.ClientAction = p.options.Site.Own("account/clients/revoke")
	return err
}
