package people

import (
	"slices"
	"strings"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
)

// order has the fields of a change, and its account.
type order struct {
	username string // as auth.EnteredName returns it
	roles    []string
}

// readOrder reads a JSON object, or a form.
func readOrder(ex *web.Exchange, c *change) (*order, error) {
	read := orderOfObject
	if ex.MediaType() == web.TypeForm {
		read = orderOfForm
	}
	wanted, err := read(ex, c)
	if err != nil {
		return nil, err
	}
	wanted.username = auth.EnteredName(wanted.username)
	if err := accounts.CheckNewUsername(wanted.username, false); c.add && err != nil {
		return nil, web.BadRequest("An account cannot have this name: "+err.Error()+".", errName)
	}
	return wanted, nil
}

func orderOfObject(ex *web.Exchange, c *change) (*order, error) {
	o, err := bodies.ReadObject(ex, bodies.OrForm)
	if err != nil {
		return nil, err
	}
	wanted := &order{}
	if wanted.username, err = o.Text("username"); err != nil {
		return nil, err
	}
	if _, given := o["roles"]; !c.roles || !given && c.add {
		return wanted, nil
	}
	roles, err := o.Texts("roles")
	wanted.roles = eachOnce(roles)
	return wanted, err
}

// orderOfForm reads a form. The roles are between commas, in one field or several.
func orderOfForm(ex *web.Exchange, c *change) (*order, error) {
	values, err := bodies.ReadForm(ex, `The form must have one field "username".`, "username")
	if err != nil {
		return nil, err
	}
	wanted := &order{username: values.Get("username")}
	if !c.roles {
		return wanted, nil
	}
	if _, given := values["roles"]; !given && !c.add {
		return nil, web.BadRequest(`The form must have the field "roles": roles with commas between them.`, nil)
	}
	wanted.roles = eachOnce(strings.Split(strings.Join(values["roles"], ","), ","))
	return wanted, nil
}

// eachOnce returns roles without outer space, each once, and without empty ones.
func eachOnce(roles []string) []string {
	once := []string{}
	for _, role := range roles {
		if role = strings.TrimSpace(role); role != "" && !slices.Contains(once, role) {
			once = append(once, role)
		}
	}
	return once
}
