package gateway

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/tokenbus/tokenbus/bus"
)

// routes is the allow-list. What is not here is a 404 and never reaches an engine.
func (g *Gateway) routes() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		g.unrouted(c.Response().Writer, c.Request(), err)
	}
	// The handlers are plain: they get the server's own writer.
	plain := func(f http.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			f(c.Response().Writer, c.Request())
			return nil
		}
	}
	for _, r := range bus.Routes {
		e.POST(r.Path, plain(func(w http.ResponseWriter, req *http.Request) { g.infer(w, req, r) }))
	}
	e.GET("/v1/models", plain(g.listModels))
	e.GET("/v1/models/*", plain(g.getModel))
	e.GET("/health", plain(g.health))
	e.GET("/ready", plain(g.ready))
	return e
}

// unrouted answers what no route takes.
func (g *Gateway) unrouted(w http.ResponseWriter, r *http.Request, err error) {
	var he *echo.HTTPError
	e := bus.Errorf(bus.ReasonInternal, "internal error")
	if errors.As(err, &he) {
		switch he.Code {
		case http.StatusNotFound:
			e = bus.Errorf(bus.ReasonRouteNotFound, "%s is not a route of this gateway", r.URL.Path)
		case http.StatusMethodNotAllowed:
			e = bus.Errorf(bus.ReasonMethod, "%s does not take %s", r.URL.Path, r.Method)
		}
	}
	g.counters.rejected(e.Reason)
	writeError(w, openAI, requestID(w, r), e)
}
