"use strict";

const place = document.getElementById("swagger-ui");
SwaggerUIBundle({
  url: place.dataset.document,
  domNode: place,
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  /* An operation is a button; the link that Swagger UI puts into it cannot be told from it by keyboard. */
  plugins: [{ wrapComponents: { DeepLink: (_, system) => ({ text }) => system.React.createElement("span", null, text) } }],
});
