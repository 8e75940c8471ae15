/**
 * What VS Code's Jupyter extension runs in a notebook's webview: its own widget manager, on a kernel connection whose websocket is
 * the messages from and to page.html.
 */
import { ServerConnection } from '@jupyterlab/services'
import { KernelConnection } from '@jupyterlab/services/lib/kernel/default'

const { kernel: id, client: clientId } = Object.fromEntries(new URLSearchParams(location.search))

class Bridge {
  static CONNECTING = 0
  static OPEN = 1
  static CLOSED = 3
  protocol = ''
  readyState = Bridge.OPEN

  constructor() {
    addEventListener('message', ({ data }) => {
      this.onmessage({ data: typeof data === 'string' ? data : new Uint8Array(data).buffer })
    })
    setTimeout(() => this.onopen({ target: this }))
  }

  send(data) {
    parent.postMessage(typeof data === 'string' ? data : [...new Uint8Array(data)], '*')
  }

  close() {}
}

const kernel = new KernelConnection({
  serverSettings: ServerConnection.makeSettings({ WebSocket: Bridge, baseUrl: location.origin, wsUrl: 'ws://bridge.invalid' }),
  clientId,
  handleComms: true,
  username: '',
  model: { id, name: 'python3' }
})

const start = async () => {
  const manager = await import(new URL('ipywidgets.js', location.href).href)
  manager.activate()
  globalThis.vscIPyWidgets8.load()
  await kernel.info
  const loader = {
    widgetsRegisteredInRequireJs: new Set(['anywidget']),
    loadWidgetScript: async () => {},
    successHandler: () => {},
    errorHandler: (...what) => console.error('a widget does not load:', ...what)
  }
  return new globalThis.vscIPyWidgets.WidgetManager(kernel, document.body, loader, () => {})
}
const managed = start()
globalThis.ready = managed.then(() => true)

const show = async modelId => {
  const manager = await managed
  const element = document.createElement('div')
  element.className = 'cell-output-ipywidget-background'
  document.body.append(element)
  const model = await manager.get_model(modelId)
  const view = await manager.create_view(model, { el: element })
  await manager.display_view(null, view, { node: element })
}

const showSpace = () => {
  const element = document.createElement('div')
  element.className = 'space'
  document.body.append(element)
}

/** Runs a cell and shows its output, which it returns: the id of a widget's model, or "space", or nothing. */
globalThis.run = async code => {
  const outputs = []
  let error = null
  const execution = kernel.requestExecute({ code, stop_on_error: true })
  execution.onIOPub = ({ header, content }) => {
    if (header.msg_type === 'error') error = new Error(`${content.ename}: ${content.evalue}`)
    if (content.data?.['text/html']) outputs.push('space')
    const view = content.data?.['application/vnd.jupyter.widget-view+json']
    if (view) outputs.push(view.model_id)
  }
  await execution.done
  if (error) throw error
  await restore(outputs.slice(-1), false)
  return outputs.at(-1) ?? null
}

/** Shows outputs again, in a webview that is new. */
globalThis.restore = async (outputs, load = true) => {
  if (load) await (await managed)._loadFromKernel()
  for (const output of outputs) {
    if (output === 'space') showSpace()
    else if (output !== null) await show(output)
  }
}
